-- A small bank. Run it as often as you like:
--
--   gnomon sql bank.gnomon --file examples/bank.sql

DROP TABLE IF EXISTS transfers;
DROP TABLE IF EXISTS accounts;
DROP TABLE IF EXISTS customers;

-- Constraints keep the bank honest: no account without its customer's number, none below its limit.
CREATE TABLE customers (
    id      integer PRIMARY KEY,
    name    varchar(40) NOT NULL,
    city    text NOT NULL DEFAULT 'Bern',
    since   date NOT NULL
);

CREATE TABLE accounts (
    id          integer PRIMARY KEY,
    customer_id integer NOT NULL,
    balance     numeric(12, 2) NOT NULL DEFAULT 0,
    overdraft   numeric(12, 2) NOT NULL DEFAULT 0 CHECK (overdraft >= 0),
    CONSTRAINT within_limit CHECK (balance >= -overdraft)
);
CREATE INDEX accounts_customer ON accounts (customer_id);

CREATE TABLE transfers (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    from_id  integer NOT NULL,
    to_id    integer NOT NULL,
    amount   numeric(12, 2) NOT NULL CHECK (amount > 0),
    note     text,
    CHECK (from_id <> to_id)
);

INSERT INTO customers (id, name, city, since) VALUES
    (1, 'Ada Lovelace',    'London', '2019-12-10'),
    (2, 'Leonhard Euler',  'Basel',  '2020-04-15'),
    (3, 'Emmy Noether',    'Erlangen', '2021-03-23');
INSERT INTO customers (id, name, since) VALUES (4, 'Albert Einstein', '2022-03-14');

COPY accounts (id, customer_id, balance, overdraft) FROM STDIN;
101	1	1200.00	0
102	1	300.50	500
201	2	2718.28	0
301	3	0	100
401	4	299.79	0
\.

SELECT c.name, a.id AS account, a.balance
FROM accounts a JOIN customers c ON c.id = a.customer_id
ORDER BY a.id;

-- A transfer is all or nothing.
BEGIN;
UPDATE accounts SET balance = balance - 250.00 WHERE id = 201;
UPDATE accounts SET balance = balance + 250.00 WHERE id = 301;
INSERT INTO transfers (from_id, to_id, amount, note) VALUES (201, 301, 250.00, 'invariants');
COMMIT;

-- One that the account cannot afford changes nothing: the condition stands in the statement that pays.
BEGIN;
UPDATE accounts SET balance = balance - 5000.00
WHERE id = 401 AND balance - 5000.00 >= -overdraft
RETURNING id, balance;
ROLLBACK;

-- An overdraft is allowed up to its limit.
BEGIN;
SELECT id, balance, overdraft FROM accounts WHERE id IN (102, 401) ORDER BY id FOR UPDATE;
UPDATE accounts SET balance = balance - 700.00 WHERE id = 102 RETURNING id, balance;
UPDATE accounts SET balance = balance + 700.00 WHERE id = 401 RETURNING id, balance;
INSERT INTO transfers (from_id, to_id, amount, note) VALUES (102, 401, 700.00, 'clocks')
RETURNING id, amount;
COMMIT;

-- Many rows at once; a key that is there already is left alone.
INSERT INTO transfers (from_id, to_id, amount) VALUES (301, 101, 20.00), (301, 201, 30.50);
UPDATE accounts SET balance = balance - 50.50 WHERE id = 301;
UPDATE accounts SET balance = balance + 20.00 WHERE id = 101;
UPDATE accounts SET balance = balance + 30.50 WHERE id = 201;
INSERT INTO customers (id, name, since) VALUES (4, 'Somebody Else', '2024-01-01')
ON CONFLICT (id) DO NOTHING;

-- Reports.
SELECT c.name, count(*) AS accounts, sum(a.balance) AS total
FROM customers c JOIN accounts a ON a.customer_id = c.id
GROUP BY c.name
HAVING sum(a.balance) > 0
ORDER BY total DESC;

SELECT t.id, f.name AS sender, r.name AS receiver, t.amount, t.note
FROM transfers t
JOIN accounts fa ON fa.id = t.from_id
JOIN customers f ON f.id = fa.customer_id
JOIN accounts ra ON ra.id = t.to_id
JOIN customers r ON r.id = ra.customer_id
ORDER BY t.id;

SELECT c.name
FROM customers c
WHERE c.id NOT IN (SELECT a.customer_id FROM accounts a JOIN transfers t ON t.from_id = a.id)
ORDER BY c.name;

-- Money moved, none came or went.
SELECT sum(balance) AS all_the_money, sum(balance) = 4518.57 AS as_before FROM accounts;
