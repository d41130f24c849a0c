package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

var pgxScenarios = []scenario{
	{"connect and settings", pgxConnect},
	{"create, read, update, delete", pgxCrud},
	{"batch", pgxBatch},
	{"modes of execution", pgxModes},
	{"prepared statements", pgxPrepared},
	{"types", pgxTypes},
	{"network types", pgxNetworkTypes},
	{"range types", pgxRangeTypes},
	{"json type", pgxJSON},
	{"enum type", pgxEnum},
	{"composite type", pgxComposite},
	{"arrays of two dimensions", pgxDimensions},
	{"rows collected into structs", pgxStructs},
	{"transactions and nested savepoints", pgxNested},
	{"isolation levels", pgxIsolation},
	{"error fields", pgxErrors},
	{"notices", pgxNotices},
	{"cancel and timeouts", pgxCancel},
	{"COPY in and out", pgxCopy},
	{"cursor", pgxCursor},
	{"listen and notify", pgxListen},
	{"pool", pgxPool},
	{"low-level pipeline", pgxPipeline},
	{"temporary table", pgxTemporary},
	{"advisory lock", pgxAdvisory},
}

func pgxOpen(ctx context.Context) *pgx.Conn { return got(pgx.Connect(ctx, url())) }

func pgxTable(ctx context.Context, db *pgx.Conn, name, columns string) {
	got(db.Exec(ctx, "DROP TABLE IF EXISTS "+name))
	got(db.Exec(ctx, fmt.Sprintf("CREATE TABLE %s (%s)", name, columns)))
}

// pgxValue returns the one value of a query.
func pgxValue[T any](ctx context.Context, db *pgx.Conn, sql string, arguments ...any) T {
	return got(pgx.CollectExactlyOneRow(got(db.Query(ctx, sql, arguments...)), pgx.RowTo[T]))
}

func pgxConnect(ctx context.Context) {
	config := got(pgx.ParseConfig(url()))
	config.RuntimeParams["application_name"] = "clients"
	config.RuntimeParams["statement_timeout"] = "5000"
	db := got(pgx.ConnectConfig(ctx, config))
	defer db.Close(ctx)
	same(pgxValue[string](ctx, db, "SHOW application_name"), "clients")
	same(pgxValue[string](ctx, db, "SHOW statement_timeout"), "5s")
	same(db.PgConn().ParameterStatus("integer_datetimes"), "on")
	same(pgxValue[int32](ctx, db, "SELECT pg_backend_pid()"), int32(db.PgConn().PID()))
	config.Database = "nosuch"
	_, err := pgx.ConnectConfig(ctx, config)
	fails(err, "3D000")
}

func pgxCrud(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pgxTable(ctx, db, "pgx_crud", "id int PRIMARY KEY, name text NOT NULL, tags text[]")
	tag := got(db.Exec(ctx, "INSERT INTO pgx_crud VALUES ($1, $2, $3)", 1, "one", []string{"a", "b"}))
	same(tag.String(), "INSERT 0 1")
	var name string
	var tags []string
	check(db.QueryRow(ctx, "SELECT name, tags FROM pgx_crud WHERE id = $1", 1).Scan(&name, &tags))
	same(fmt.Sprint(name, tags), "one[a b]")
	named := pgx.NamedArgs{"name": "uno", "id": 1}
	same(got(db.Exec(ctx, "UPDATE pgx_crud SET name = @name WHERE id = @id", named)).RowsAffected(), int64(1))
	same(errors.Is(db.QueryRow(ctx, "SELECT name FROM pgx_crud WHERE id = 5").Scan(&name), pgx.ErrNoRows), true)
	same(got(db.Exec(ctx, "DELETE FROM pgx_crud")).String(), "DELETE 1")
}

func pgxBatch(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pgxTable(ctx, db, "pgx_batch", "id int PRIMARY KEY")
	batch := &pgx.Batch{}
	for i := 0; i < 100; i++ {
		batch.Queue("INSERT INTO pgx_batch VALUES ($1)", i)
	}
	sum := 0
	batch.Queue("SELECT sum(id) FROM pgx_batch").QueryRow(func(row pgx.Row) error { return row.Scan(&sum) })
	check(db.SendBatch(ctx, batch).Close())
	same(sum, 4950)
	// A batch is one transaction.
	batch = &pgx.Batch{}
	batch.Queue("INSERT INTO pgx_batch VALUES (1000)")
	batch.Queue("INSERT INTO pgx_batch VALUES (1)")
	fails(db.SendBatch(ctx, batch).Close(), "23505")
	same(pgxValue[int64](ctx, db, "SELECT count(*) FROM pgx_batch"), int64(100))
}

func pgxModes(ctx context.Context) {
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec,
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config := got(pgx.ParseConfig(url()))
		config.DefaultQueryExecMode = mode
		db := got(pgx.ConnectConfig(ctx, config))
		for i := 0; i < 3; i++ {
			same(pgxValue[string](ctx, db, "SELECT $1::text || $2::int", "n", i), fmt.Sprint("n", i))
		}
		check(db.Close(ctx))
	}
}

func pgxPrepared(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pgxTable(ctx, db, "pgx_prepared", "id int, name varchar(9)")
	found := got(db.Prepare(ctx, "by id", "SELECT * FROM pgx_prepared WHERE id = $1"))
	same(found.ParamOIDs, []uint32{23})
	same([]uint32{found.Fields[0].DataTypeOID, found.Fields[1].DataTypeOID}, []uint32{23, 1043})
	same(found.Fields[1].TypeModifier, int32(13))
	got(db.Exec(ctx, "by id", 1))
	got(db.Exec(ctx, "ALTER TABLE pgx_prepared ADD COLUMN more int"))
	_, err := db.Exec(ctx, "by id", 1)
	fails(err, "0A000")
	check(db.Deallocate(ctx, "by id"))
	_, err = db.Prepare(ctx, "wrong", "SELECT nosuch FROM pgx_prepared")
	fails(err, "42703")
}

// pgxRoundTrip sends a value of a type and reads it.
func pgxRoundTrip[T any](ctx context.Context, db *pgx.Conn, kind string, value T) {
	found := pgxValue[T](ctx, db, "SELECT $1::"+kind, value)
	if fmt.Sprint(found) != fmt.Sprint(value) {
		panic(fmt.Errorf("%s: %v, expected %v", kind, found, value))
	}
}

func pgxTypes(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pgxRoundTrip(ctx, db, "bool", true)
	pgxRoundTrip(ctx, db, "int2", int16(7))
	pgxRoundTrip(ctx, db, "int8", int64(math.MaxInt64))
	pgxRoundTrip(ctx, db, "float4", float32(1.5))
	pgxRoundTrip(ctx, db, "float8", math.Inf(1))
	pgxRoundTrip(ctx, db, "text", "äöü")
	pgxRoundTrip(ctx, db, "bytea", []byte{0, 255})
	pgxRoundTrip(ctx, db, "numeric", pgtype.Numeric{Int: big.NewInt(12345), Exp: -3, Valid: true})
	pgxRoundTrip(ctx, db, "date", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC))
	pgxRoundTrip(ctx, db, "timestamp", time.Date(2024, 2, 29, 12, 30, 1, 5000, time.UTC))
	pgxRoundTrip(ctx, db, "time", pgtype.Time{Microseconds: 5, Valid: true})
	pgxRoundTrip(ctx, db, "interval", pgtype.Interval{Months: 1, Days: 2, Microseconds: 3, Valid: true})
	pgxRoundTrip(ctx, db, "uuid", [16]byte{15: 5})
	pgxRoundTrip(ctx, db, "int4[]", []int32{1, 2})
	pgxRoundTrip(ctx, db, "text[]", []string{"a", `b"`})
	same(pgxValue[*int32](ctx, db, "SELECT NULL::int"), (*int32)(nil))
	at := time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)
	same(pgxValue[time.Time](ctx, db, "SELECT $1::timestamptz", at).Equal(at), true)
}

func pgxNetworkTypes(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pgxRoundTrip(ctx, db, "inet", netip.MustParseAddr("10.0.0.1"))
	pgxRoundTrip(ctx, db, "cidr", netip.MustParsePrefix("10.0.0.0/8"))
}

func pgxRangeTypes(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	value := pgtype.Range[int32]{Lower: 1, Upper: 5, LowerType: pgtype.Inclusive, UpperType: pgtype.Exclusive, Valid: true}
	pgxRoundTrip(ctx, db, "int4range", value)
}

func pgxJSON(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pgxRoundTrip(ctx, db, "jsonb", map[string]any{"a": []any{1.0, nil}})
	pgxRoundTrip(ctx, db, "json", map[string]any{"a": "b"})
}

func pgxEnum(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	got(db.Exec(ctx, "CREATE TYPE pgx_mood AS ENUM ('sad', 'ok')"))
	db.TypeMap().RegisterType(got(db.LoadType(ctx, "pgx_mood")))
	pgxRoundTrip(ctx, db, "pgx_mood", "ok")
	got(db.Exec(ctx, "DROP TYPE pgx_mood"))
}

func pgxComposite(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	got(db.Exec(ctx, "CREATE TYPE pgx_card AS (value int, suit text)"))
	db.TypeMap().RegisterType(got(db.LoadType(ctx, "pgx_card")))
	type card struct {
		Value int32
		Suit  string
	}
	pgxRoundTrip(ctx, db, "pgx_card", card{8, "hearts"})
	got(db.Exec(ctx, "DROP TYPE pgx_card"))
}

func pgxDimensions(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pgxRoundTrip(ctx, db, "int4[]", [][]int32{{1, 2}, {3, 4}})
}

func pgxStructs(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	type item struct {
		ID   int32
		Name *string
	}
	rows := got(db.Query(ctx, "SELECT n AS id, CASE WHEN n > 1 THEN 'x' END AS name FROM generate_series(1, 2) AS n"))
	found := got(pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[item]))
	same(len(found) == 2 && found[0].Name == nil && *found[1].Name == "x", true)
}

func pgxNested(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pgxTable(ctx, db, "pgx_nested", "id int PRIMARY KEY")
	got(db.Exec(ctx, "INSERT INTO pgx_nested VALUES (1)"))
	tx := got(db.Begin(ctx))
	nested := got(tx.Begin(ctx))
	got(nested.Exec(ctx, "INSERT INTO pgx_nested VALUES (7)"))
	deeper := got(nested.Begin(ctx))
	_, err := deeper.Exec(ctx, "INSERT INTO pgx_nested VALUES (1)")
	fails(err, "23505")
	check(deeper.Rollback(ctx))
	got(nested.Exec(ctx, "INSERT INTO pgx_nested VALUES (8)"))
	check(nested.Rollback(ctx))
	got(tx.Exec(ctx, "INSERT INTO pgx_nested VALUES (2)"))
	check(tx.Commit(ctx))
	same(pgxValue[[]int32](ctx, db, "SELECT array_agg(id ORDER BY id) FROM pgx_nested"), []int32{1, 2})
	// A commit of a failed transaction is a rollback.
	tx = got(db.Begin(ctx))
	_, err = tx.Exec(ctx, "SELECT 1 / 0")
	fails(err, "22012")
	same(errors.Is(tx.Commit(ctx), pgx.ErrTxCommitRollback), true)
}

func pgxIsolation(ctx context.Context) {
	db, other := pgxOpen(ctx), pgxOpen(ctx)
	defer db.Close(ctx)
	defer other.Close(ctx)
	pgxTable(ctx, db, "pgx_isolated", "n int")
	got(db.Exec(ctx, "INSERT INTO pgx_isolated VALUES (0)"))
	tx := got(db.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))
	got(tx.Exec(ctx, "SELECT * FROM pgx_isolated"))
	got(other.Exec(ctx, "UPDATE pgx_isolated SET n = 1"))
	_, err := tx.Exec(ctx, "UPDATE pgx_isolated SET n = 2")
	fails(err, "40001")
	check(tx.Rollback(ctx))
	options := pgx.TxOptions{IsoLevel: pgx.Serializable, AccessMode: pgx.ReadOnly, DeferrableMode: pgx.Deferrable}
	tx = got(db.BeginTx(ctx, options))
	_, err = tx.Exec(ctx, "DELETE FROM pgx_isolated")
	fails(err, "25006")
	check(tx.Rollback(ctx))
}

func pgxErrors(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pgxTable(ctx, db, "pgx_errors", "id int PRIMARY KEY, name text NOT NULL")
	_, err := db.Exec(ctx, "INSERT INTO pgx_errors VALUES (1)")
	var report *pgconn.PgError
	same(errors.As(fails(err, "23502"), &report), true)
	fields := []string{report.Severity, report.SchemaName, report.TableName, report.ColumnName, report.Detail}
	same(fields, []string{"ERROR", "public", "pgx_errors", "name", "Failing row contains (1, null)."})
	_, err = db.Exec(ctx, "SELECT *\nFROM nosuch")
	same(errors.As(fails(err, "42P01"), &report), true)
	same(report.Position, int32(15))
	var count int
	fails(db.QueryRow(ctx, "SELECT 1 / $1::int", 0).Scan(&count), "22012")
}

func pgxNotices(ctx context.Context) {
	config := got(pgx.ParseConfig(url()))
	found := []string{}
	config.OnNotice = func(_ *pgconn.PgConn, notice *pgconn.Notice) { found = append(found, notice.Message) }
	db := got(pgx.ConnectConfig(ctx, config))
	defer db.Close(ctx)
	got(db.Exec(ctx, "DROP TABLE IF EXISTS nosuch"))
	same(found, []string{`table "nosuch" does not exist, skipping`})
}

func pgxCancel(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	time.AfterFunc(200*time.Millisecond, func() { _ = db.PgConn().CancelRequest(ctx) })
	_, err := db.Exec(ctx, "SELECT pg_sleep(10)")
	fails(err, "57014")
	got(db.Exec(ctx, "SET statement_timeout = 100"))
	_, err = db.Exec(ctx, "SELECT pg_sleep(10)")
	fails(err, "57014")
	got(db.Exec(ctx, "RESET statement_timeout"))
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err = db.Exec(short, "SELECT pg_sleep(10)")
	same(errors.Is(err, context.DeadlineExceeded), true)
	same(db.IsClosed(), true)
}

func pgxCopy(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pgxTable(ctx, db, "pgx_copied", "id int, name text, tags text[], at timestamptz")
	rows := [][]any{{10, "ten", nil, time.Now()}, {11, nil, []string{}, nil}}
	source := pgx.CopyFromRows(rows)
	same(got(db.CopyFrom(ctx, pgx.Identifier{"pgx_copied"}, []string{"id", "name", "tags", "at"}, source)), int64(2))
	_, err := db.CopyFrom(ctx, pgx.Identifier{"nosuch"}, []string{"id"}, pgx.CopyFromRows([][]any{{1}}))
	fails(err, "42P01")
	var out writer
	got(db.PgConn().CopyTo(ctx, &out, "COPY (SELECT id, name FROM pgx_copied ORDER BY id) TO STDOUT"))
	same(string(out), "10\tten\n11\t\\N\n")
}

type writer []byte

func (all *writer) Write(part []byte) (int, error) {
	*all = append(*all, part...)
	return len(part), nil
}

func pgxCursor(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	tx := got(db.Begin(ctx))
	got(tx.Exec(ctx, "DECLARE numbers CURSOR FOR SELECT * FROM generate_series(1, 10)"))
	same(got(tx.Exec(ctx, "FETCH 3 FROM numbers")).RowsAffected(), int64(3))
	same(got(tx.Exec(ctx, "MOVE 5 FROM numbers")).RowsAffected(), int64(5))
	same(got(tx.Exec(ctx, "FETCH ALL FROM numbers")).RowsAffected(), int64(2))
	got(tx.Exec(ctx, "CLOSE numbers"))
	check(tx.Commit(ctx))
}

func pgxListen(ctx context.Context) {
	db, other := pgxOpen(ctx), pgxOpen(ctx)
	defer db.Close(ctx)
	defer other.Close(ctx)
	got(db.Exec(ctx, "LISTEN pgx_news"))
	got(other.Exec(ctx, "SELECT pg_notify($1, $2)", "pgx_news", "hello"))
	same(got(db.WaitForNotification(ctx)).Payload, "hello")
}

func pgxPool(ctx context.Context) {
	config := got(pgxpool.ParseConfig(url()))
	config.MaxConns = 4
	pool := got(pgxpool.NewWithConfig(ctx, config))
	defer pool.Close()
	got(pool.Exec(ctx, "DROP TABLE IF EXISTS pgx_pooled"))
	got(pool.Exec(ctx, "CREATE TABLE pgx_pooled AS SELECT 0 AS n"))
	var group sync.WaitGroup
	failed := make(chan error, 40)
	for i := 0; i < 40; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			_, err := pool.Exec(ctx, "UPDATE pgx_pooled SET n = n + 1")
			failed <- err
		}()
	}
	group.Wait()
	for i := 0; i < 40; i++ {
		check(<-failed)
	}
	var n int
	check(pool.QueryRow(ctx, "SELECT n FROM pgx_pooled").Scan(&n))
	same(n, 40)
}

func pgxPipeline(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	pipeline := db.PgConn().StartPipeline(ctx)
	pipeline.SendQueryParams("SELECT 1", nil, nil, nil, nil)
	pipeline.SendQueryParams("SELECT nosuch", nil, nil, nil, nil)
	check(pipeline.Sync())
	pipeline.SendQueryParams("SELECT 3", nil, nil, nil, nil)
	check(pipeline.Sync())
	read := func() []byte {
		results := got(pipeline.GetResults())
		return results.(*pgconn.ResultReader).Read().Rows[0][0]
	}
	same(string(read()), "1")
	_, err := pipeline.GetResults()
	fails(err, "42703")
	got(pipeline.GetResults())
	same(string(read()), "3")
	check(pipeline.Close())
}

func pgxTemporary(ctx context.Context) {
	db := pgxOpen(ctx)
	defer db.Close(ctx)
	got(db.Exec(ctx, "CREATE TEMPORARY TABLE pgx_scratch (id int)"))
	copied := got(db.CopyFrom(ctx, pgx.Identifier{"pgx_scratch"}, []string{"id"}, pgx.CopyFromRows([][]any{{1}, {2}})))
	same(copied, int64(2))
}

func pgxAdvisory(ctx context.Context) {
	db, other := pgxOpen(ctx), pgxOpen(ctx)
	defer db.Close(ctx)
	defer other.Close(ctx)
	got(db.Exec(ctx, "SELECT pg_advisory_lock($1)", int64(5)))
	same(pgxValue[bool](ctx, other, "SELECT pg_try_advisory_lock($1)", int64(5)), false)
	same(pgxValue[bool](ctx, db, "SELECT pg_advisory_unlock($1)", int64(5)), true)
}
