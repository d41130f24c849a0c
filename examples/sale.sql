-- A ticket sale, for `gnomon compare`. Nine of ten customers want the same concert, and each thinks for a moment
-- before he pays.
--
--   gnomon compare --file examples/sale.sql --init examples/sale-init.sql

\set customer random_zipfian(1, 100000, 1.1)
\set tickets random(1, 4)
\if random(1, 10) <= 9
  \set concert 1
\else
  \set concert random(2, 4)
\endif

BEGIN;
-- Does not wait for other sales of the concert, as long as there are tickets for all of them.
UPDATE concert SET tickets = tickets - :tickets, takings = takings + :tickets * 45
    WHERE id = :concert AND tickets >= :tickets;
\sleep 1 ms
INSERT INTO sale (concert_id, customer, tickets) VALUES (:concert, :customer, :tickets);
COMMIT;
