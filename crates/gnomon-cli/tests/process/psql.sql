\d
\dt
\di
\ds
\dv
\du
\df now
\d branches
\d items
\d+ items
\d items_pkey
\d items_note_made
\d counter
\d items_seq_seq
\d items_id_seq
\d cheap
\d app.*
\d missing
\dt nothing*
\z items
CREATE TABLE parted (a int PRIMARY KEY, b text, n int NOT NULL DEFAULT 0 CHECK (n >= 0)) PARTITION BY HASH (a);
CREATE TABLE parted_even PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE parted_odd PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
\d parted
\d+ parted
