-- The schema that meta-commands and catalog queries describe.
CREATE SCHEMA shop;
CREATE TABLE shop.items (
  id serial PRIMARY KEY,
  name varchar(20) NOT NULL CONSTRAINT items_name UNIQUE,
  price numeric(8, 2) DEFAULT 1.5 CONSTRAINT items_price CHECK (price > 0),
  at timestamptz DEFAULT now(),
  tags text[]
);
CREATE INDEX items_by_price ON shop.items (price DESC, name);
CREATE TABLE shop.pairs (
  a int GENERATED ALWAYS AS IDENTITY,
  b bigint NOT NULL,
  c date,
  d double precision,
  e bytea,
  f uuid,
  g char(5) COLLATE "C",
  PRIMARY KEY (b, a)
);
CREATE VIEW shop.cheap AS SELECT id, name FROM shop.items WHERE price < 2;
CREATE SEQUENCE shop.numbers START 5 INCREMENT 2 MAXVALUE 100 CYCLE;
CREATE PROCEDURE shop.add_one(INOUT n int) LANGUAGE sql AS 'SELECT n + 1';
COMMENT ON SCHEMA shop IS 'the shop';
COMMENT ON TABLE shop.items IS 'the items';
COMMENT ON COLUMN shop.items.price IS 'in euros';
INSERT INTO shop.items (name, price) VALUES ('one', 1), ('two', 2);
