package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
)

var gooseScenarios = []scenario{
	{"migrations up and down", gooseUpAndDown},
	{"to a version and redo", gooseToVersion},
	{"status and version", gooseStatus},
	{"migration without a transaction", gooseNoTransaction},
	{"failed migration", gooseFailed},
	{"statements with plpgsql", goosePlpgsql},
	{"migrations over lib/pq", gooseOverPq},
}

var gooseMigrations = []string{
	`-- +goose Up
CREATE TABLE goose_items (id serial PRIMARY KEY, name text);
-- +goose Down
DROP TABLE goose_items;`,
	`-- +goose Up
ALTER TABLE goose_items ADD COLUMN n int NOT NULL DEFAULT 3;
INSERT INTO goose_items (name) VALUES ('x;y');
CREATE INDEX goose_by_n ON goose_items (n);
-- +goose Down
DROP INDEX goose_by_n;
DELETE FROM goose_items;
ALTER TABLE goose_items DROP COLUMN n;`,
}

// withGoose runs a scenario with a folder of migrations, and a database without their tables.
func withGoose(driver string, migrations []string, run func(db *sql.DB, folder string)) {
	folder := got(os.MkdirTemp("", "goose-"))
	defer os.RemoveAll(folder)
	for number, text := range migrations {
		name := filepath.Join(folder, fmt.Sprintf("%05d_step.sql", number+1))
		check(os.WriteFile(name, []byte(text), 0o600))
	}
	goose.SetLogger(goose.NopLogger())
	check(goose.SetDialect("postgres"))
	db := got(sql.Open(driver, pqURL("")))
	defer db.Close()
	got(db.Exec("DROP TABLE IF EXISTS goose_items, goose_db_version"))
	run(db, folder)
}

func gooseColumns(ctx context.Context, db *sql.DB) int {
	return pqValue[int](ctx, db, "SELECT count(*) FROM information_schema.columns WHERE table_name = 'goose_items'")
}

func gooseUpAndDown(ctx context.Context) {
	withGoose("pgx", gooseMigrations, func(db *sql.DB, folder string) {
		check(goose.UpContext(ctx, db, folder))
		same(pqValue[string](ctx, db, "SELECT name FROM goose_items WHERE n = 3"), "x;y")
		check(goose.DownContext(ctx, db, folder))
		same(gooseColumns(ctx, db), 2)
		check(goose.DownContext(ctx, db, folder))
		same(gooseColumns(ctx, db), 0)
	})
}

func gooseToVersion(ctx context.Context) {
	withGoose("pgx", gooseMigrations, func(db *sql.DB, folder string) {
		check(goose.UpToContext(ctx, db, folder, 1))
		same(gooseColumns(ctx, db), 2)
		check(goose.UpByOneContext(ctx, db, folder))
		check(goose.RedoContext(ctx, db, folder))
		same(gooseColumns(ctx, db), 3)
		check(goose.ResetContext(ctx, db, folder))
		same(gooseColumns(ctx, db), 0)
	})
}

func gooseStatus(ctx context.Context) {
	withGoose("pgx", gooseMigrations, func(db *sql.DB, folder string) {
		same(got(goose.EnsureDBVersionContext(ctx, db)), int64(0))
		check(goose.UpContext(ctx, db, folder))
		same(got(goose.GetDBVersionContext(ctx, db)), int64(2))
		check(goose.StatusContext(ctx, db, folder))
	})
}

func gooseNoTransaction(ctx context.Context) {
	more := `-- +goose NO TRANSACTION
-- +goose Up
CREATE INDEX CONCURRENTLY goose_by_name ON goose_items (name);
-- +goose Down
DROP INDEX CONCURRENTLY goose_by_name;`
	withGoose("pgx", append(gooseMigrations[:2:2], more), func(db *sql.DB, folder string) {
		check(goose.UpContext(ctx, db, folder))
		check(goose.DownContext(ctx, db, folder))
	})
}

func gooseFailed(ctx context.Context) {
	more := `-- +goose Up
INSERT INTO goose_items (name) VALUES ('second');
SELECT nosuch;
-- +goose Down
SELECT 1;`
	withGoose("pgx", append(gooseMigrations[:2:2], more), func(db *sql.DB, folder string) {
		fails(goose.UpContext(ctx, db, folder), "42703")
		same(got(goose.GetDBVersionContext(ctx, db)), int64(2))
		same(pqValue[int](ctx, db, "SELECT count(*) FROM goose_items"), 1)
	})
}

func goosePlpgsql(ctx context.Context) {
	more := `-- +goose Up
-- +goose StatementBegin
DO $$ BEGIN INSERT INTO goose_items (name) VALUES ('block'); END $$;
-- +goose StatementEnd
-- +goose Down
SELECT 1;`
	withGoose("pgx", append(gooseMigrations[:2:2], more), func(db *sql.DB, folder string) {
		check(goose.UpContext(ctx, db, folder))
	})
}

func gooseOverPq(ctx context.Context) {
	withGoose("postgres", gooseMigrations, func(db *sql.DB, folder string) {
		check(goose.UpContext(ctx, db, folder))
		check(goose.ResetContext(ctx, db, folder))
	})
}
