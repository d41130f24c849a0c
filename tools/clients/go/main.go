// The scenario of pgx.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func expect(what string, got, expected any) {
	if fmt.Sprint(got) != fmt.Sprint(expected) {
		check(fmt.Errorf("%s: %v, expected %v", what, got, expected))
	}
}

func main() {
	ctx := context.Background()
	db, err := pgx.Connect(ctx, os.Getenv("CLIENT_URL"))
	check(err)
	defer db.Close(ctx)
	exec := func(sql string, args ...any) pgconn.CommandTag {
		tag, err := db.Exec(ctx, sql, args...)
		check(err)
		return tag
	}
	exec("DROP TABLE IF EXISTS pgx_t")
	exec("CREATE TABLE pgx_t (id int PRIMARY KEY, name text NOT NULL, tags text[])")

	expect("insert", exec("INSERT INTO pgx_t VALUES ($1, $2, $3)", 1, "one", []string{"a", "b"}), "INSERT 0 1")
	var name string
	var tags []string
	check(db.QueryRow(ctx, "SELECT name, tags FROM pgx_t WHERE id = $1", 1).Scan(&name, &tags))
	expect("row", fmt.Sprintf("%s %v", name, tags), "one [a b]")
	expect("update", exec("UPDATE pgx_t SET name = $1 WHERE id = $2", "uno", 1), "UPDATE 1")

	rows := [][]any{{10, "ten", nil}, {11, "eleven", []string{}}}
	copied, err := db.CopyFrom(ctx, pgx.Identifier{"pgx_t"}, []string{"id", "name", "tags"}, pgx.CopyFromRows(rows))
	check(err)
	expect("copied", copied, 2)

	tx, err := db.Begin(ctx)
	check(err)
	nested, err := tx.Begin(ctx)
	check(err)
	_, err = nested.Exec(ctx, "INSERT INTO pgx_t VALUES (1, 'again')")
	var report *pgconn.PgError
	if !errors.As(err, &report) {
		check(fmt.Errorf("a duplicate key gave %v", err))
	}
	expect("error", fmt.Sprint(report.Code, report.SchemaName, report.TableName, report.ConstraintName), "23505publicpgx_tpgx_t_pkey")
	check(nested.Rollback(ctx))
	_, err = tx.Exec(ctx, "INSERT INTO pgx_t VALUES (2, 'two')")
	check(err)
	check(tx.Commit(ctx))

	_, err = db.Prepare(ctx, "by id", "SELECT name FROM pgx_t WHERE id = $1")
	check(err)
	check(db.QueryRow(ctx, "by id", 2).Scan(&name))
	expect("prepared", name, "two")
	_, err = db.Prepare(ctx, "wrong", "SELECT nosuch FROM pgx_t")
	if !errors.As(err, &report) {
		check(fmt.Errorf("a wrong statement gave %v", err))
	}
	expect("wrong statement", report.Code, "42703")

	batch := &pgx.Batch{}
	batch.Queue("SELECT count(*) FROM pgx_t")
	batch.Queue("SELECT $1::int + 1", 1)
	results := db.SendBatch(ctx, batch)
	var count int
	check(results.QueryRow().Scan(&count))
	expect("count", count, 4)
	check(results.QueryRow().Scan(&count))
	expect("sum", count, 2)
	check(results.Close())
	if !errors.As(db.QueryRow(ctx, "SELECT 1 / $1::int", 0).Scan(&count), &report) || report.Code != "22012" {
		check(fmt.Errorf("a division by zero gave %v", report))
	}
	expect("delete", exec("DELETE FROM pgx_t WHERE id > 1"), "DELETE 3")
	exec("DROP TABLE pgx_t")
}
