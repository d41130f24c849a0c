-- What sale.sql works on: a concert whose tickets everybody wants, and three that few do.

CREATE TABLE concert (
    id      integer PRIMARY KEY,
    name    text NOT NULL,
    tickets bigint NOT NULL CHECK (tickets >= 0),
    takings numeric(12, 2) NOT NULL DEFAULT 0
);
CREATE TABLE sale (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    concert_id integer NOT NULL,
    customer   integer NOT NULL,
    tickets    integer NOT NULL,
    sold_at    timestamptz NOT NULL DEFAULT now()
);

COPY concert (id, name, tickets) FROM STDIN;
1	The one	1000000000
2	The other	1000000000
3	A matinee	1000000000
4	A rehearsal	1000000000
\.
