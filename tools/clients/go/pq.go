package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lib/pq"
)

var pqScenarios = []scenario{
	{"connect and settings", pqConnect},
	{"create, read, update, delete", pqCrud},
	{"prepared statements", pqPrepared},
	{"types", pqTypes},
	{"json type", pqJSON},
	{"transactions and savepoints", pqTransactions},
	{"isolation levels", pqIsolation},
	{"error fields", pqErrors},
	{"cancel and timeout", pqCancel},
	{"COPY in", pqCopy},
	{"several result sets", pqResults},
	{"listener", pqListener},
	{"description of columns", pqColumns},
	{"introspection", pqIntrospection},
	{"pool", pqPool},
}

func pqURL(settings string) string {
	return url() + "?sslmode=disable" + settings
}

func pqOpen() *sql.DB { return got(sql.Open("postgres", pqURL(""))) }

func pqTable(ctx context.Context, db *sql.DB, name, columns string) {
	got(db.ExecContext(ctx, "DROP TABLE IF EXISTS "+name))
	got(db.ExecContext(ctx, fmt.Sprintf("CREATE TABLE %s (%s)", name, columns)))
}

// pqValue returns the one value of a query.
func pqValue[T any](ctx context.Context, db *sql.DB, query string, arguments ...any) (value T) {
	check(db.QueryRowContext(ctx, query, arguments...).Scan(&value))
	return value
}

func pqConnect(ctx context.Context) {
	db := got(sql.Open("postgres", pqURL("&application_name=clients&search_path=public&connect_timeout=5")))
	defer db.Close()
	check(db.PingContext(ctx))
	same(pqValue[string](ctx, db, "SHOW application_name"), "clients")
	same(pqValue[string](ctx, db, "SHOW search_path"), "public")
	binary := got(sql.Open("postgres", pqURL("&binary_parameters=yes")))
	defer binary.Close()
	same(pqValue[int](ctx, binary, "SELECT $1::int + 1", 1), 2)
	wrong := got(sql.Open("postgres", strings.Replace(pqURL(""), "?", "x?", 1)))
	defer wrong.Close()
	fails(wrong.PingContext(ctx), "3D000")
}

func pqCrud(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	pqTable(ctx, db, "pq_crud", "id serial PRIMARY KEY, name text, tags text[]")
	insert := "INSERT INTO pq_crud (name, tags) VALUES ($1, $2) RETURNING id"
	same(pqValue[int](ctx, db, insert, "one", pq.Array([]string{"a", "b,"})), 1)
	var tags []string
	check(db.QueryRowContext(ctx, "SELECT tags FROM pq_crud WHERE id = any($1)", pq.Array([]int{1})).Scan(pq.Array(&tags)))
	same(tags, []string{"a", "b,"})
	same(got(got(db.ExecContext(ctx, "UPDATE pq_crud SET name = $1", nil)).RowsAffected()), int64(1))
	same(pqValue[sql.NullString](ctx, db, "SELECT name FROM pq_crud").Valid, false)
	same(got(got(db.ExecContext(ctx, "DELETE FROM pq_crud")).RowsAffected()), int64(1))
}

func pqPrepared(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	statement := got(db.PrepareContext(ctx, "SELECT $1::int * 2"))
	defer statement.Close()
	for i := 0; i < 5; i++ {
		var n int
		check(statement.QueryRowContext(ctx, i).Scan(&n))
		same(n, i*2)
	}
	_, err := db.PrepareContext(ctx, "SELECT nosuch")
	fails(err, "42703")
}

func pqTypes(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	at := time.Date(2024, 2, 29, 12, 30, 1, 5000, time.UTC)
	same(pqValue[bool](ctx, db, "SELECT $1::bool", true), true)
	same(pqValue[int64](ctx, db, "SELECT $1::int8", int64(1)<<62), int64(1)<<62)
	same(pqValue[float64](ctx, db, "SELECT $1::float8", 1.5), 1.5)
	same(pqValue[string](ctx, db, "SELECT $1::numeric(8,2)", "1.5"), "1.50")
	same(pqValue[[]byte](ctx, db, "SELECT $1::bytea", []byte{0, 255}), []byte{0, 255})
	same(pqValue[time.Time](ctx, db, "SELECT $1::timestamptz", at).Equal(at), true)
	same(pqValue[time.Time](ctx, db, "SELECT '2024-02-29'::date").Day(), 29)
	same(pqValue[string](ctx, db, "SELECT $1::uuid", "00000000-0000-0000-0000-000000000005"), "00000000-0000-0000-0000-000000000005")
	same(pqValue[string](ctx, db, "SELECT '1 day 02:00'::interval"), "1 day 02:00:00")
}

func pqJSON(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	same(pqValue[string](ctx, db, "SELECT $1::jsonb -> 'a'", []byte(`{"a": [1]}`)), "[1]")
}

func pqTransactions(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	pqTable(ctx, db, "pq_nested", "id int PRIMARY KEY")
	tx := got(db.BeginTx(ctx, nil))
	got(tx.ExecContext(ctx, "INSERT INTO pq_nested VALUES (1)"))
	got(tx.ExecContext(ctx, "SAVEPOINT a"))
	_, err := tx.ExecContext(ctx, "INSERT INTO pq_nested VALUES (1)")
	fails(err, "23505")
	got(tx.ExecContext(ctx, "ROLLBACK TO SAVEPOINT a"))
	check(tx.Commit())
	tx = got(db.BeginTx(ctx, nil))
	got(tx.ExecContext(ctx, "DELETE FROM pq_nested"))
	check(tx.Rollback())
	same(pqValue[int](ctx, db, "SELECT count(*) FROM pq_nested"), 1)
}

func pqIsolation(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		tx := got(db.BeginTx(ctx, &sql.TxOptions{Isolation: level, ReadOnly: true}))
		var found string
		check(tx.QueryRowContext(ctx, "SHOW transaction_isolation").Scan(&found))
		same(strings.ToUpper(found), strings.ToUpper(level.String()))
		_, err := tx.ExecContext(ctx, "CREATE TABLE pq_readonly (id int)")
		fails(err, "25006")
		check(tx.Rollback())
	}
}

func pqErrors(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	pqTable(ctx, db, "pq_errors", "id int PRIMARY KEY, name text NOT NULL CONSTRAINT pq_short CHECK (length(name) < 3)")
	_, err := db.ExecContext(ctx, "INSERT INTO pq_errors VALUES (1, 'long')")
	var report *pq.Error
	same(errors.As(fails(err, "23514"), &report), true)
	same([]string{report.Table, report.Constraint, report.Code.Name()}, []string{"pq_errors", "pq_short", "check_violation"})
	_, err = db.ExecContext(ctx, "SELECT 1 FROM")
	same(errors.As(fails(err, "42601"), &report), true)
	same(report.Message, "syntax error at end of input")
}

func pqCancel(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err := db.ExecContext(short, "SELECT pg_sleep(10)")
	same(err != nil, true)
	_, err = db.ExecContext(ctx, "SET statement_timeout = 100; SELECT pg_sleep(10)")
	fails(err, "57014")
}

func pqCopy(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	pqTable(ctx, db, "pq_copied", "id int, name text")
	tx := got(db.BeginTx(ctx, nil))
	statement := got(tx.PrepareContext(ctx, pq.CopyIn("pq_copied", "id", "name")))
	for i := 0; i < 100; i++ {
		got(statement.ExecContext(ctx, i, fmt.Sprintf("row\t%d", i)))
	}
	got(statement.ExecContext(ctx))
	check(statement.Close())
	check(tx.Commit())
	same(pqValue[int](ctx, db, "SELECT count(*) FROM pq_copied WHERE name LIKE E'row\\t%'"), 100)
}

func pqResults(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	rows := got(db.QueryContext(ctx, "SELECT 1; SELECT 2, 3"))
	defer rows.Close()
	for rows.Next() {
	}
	same(rows.NextResultSet(), true)
	same(len(got(rows.Columns())), 2)
}

func pqListener(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	listener := pq.NewListener(pqURL(""), time.Second, time.Second, nil)
	defer listener.Close()
	// A LISTEN that the server refuses is tried again and again.
	listening := make(chan error, 1)
	go func() { listening <- listener.Listen("pq_news") }()
	select {
	case err := <-listening:
		check(err)
	case <-time.After(3 * time.Second):
		panic(errors.New("LISTEN does not succeed"))
	}
	got(db.ExecContext(ctx, "NOTIFY pq_news, 'hello'"))
	select {
	case note := <-listener.Notify:
		same(note.Extra, "hello")
	case <-time.After(5 * time.Second):
		panic(errors.New("nothing came"))
	}
}

func pqColumns(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	rows := got(db.QueryContext(ctx, "SELECT 1.5::numeric(8,2) AS price, 'x'::varchar(9) AS name, now() AS at"))
	defer rows.Close()
	columns := got(rows.ColumnTypes())
	precision, scale, _ := columns[0].DecimalSize()
	length, _ := columns[1].Length()
	same([]int64{precision, scale, length}, []int64{8, 2, 9})
	same(columns[2].DatabaseTypeName(), "TIMESTAMPTZ")
}

func pqIntrospection(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	pqTable(ctx, db, "pq_described", "id int PRIMARY KEY, name varchar(9) NOT NULL UNIQUE")
	keys := `SELECT string_agg(kcu.column_name, ',' ORDER BY tc.constraint_name)
		FROM information_schema.table_constraints tc
		JOIN information_schema.key_column_usage kcu USING (constraint_schema, constraint_name, table_name)
		WHERE tc.table_name = 'pq_described'`
	same(pqValue[string](ctx, db, keys), "name,id")
	definition := "SELECT pg_get_indexdef('pq_described_name_key'::regclass)"
	same(pqValue[string](ctx, db, definition), "CREATE UNIQUE INDEX pq_described_name_key ON public.pq_described USING btree (name)")
}

func pqPool(ctx context.Context) {
	db := pqOpen()
	defer db.Close()
	db.SetMaxOpenConns(3)
	pqTable(ctx, db, "pq_pooled", "n int")
	got(db.ExecContext(ctx, "INSERT INTO pq_pooled VALUES (0)"))
	failed := make(chan error)
	for i := 0; i < 30; i++ {
		go func() {
			_, err := db.ExecContext(ctx, "UPDATE pq_pooled SET n = n + 1")
			failed <- err
		}()
	}
	for i := 0; i < 30; i++ {
		check(<-failed)
	}
	same(pqValue[int](ctx, db, "SELECT n FROM pq_pooled"), 30)
}
