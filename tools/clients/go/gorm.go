package main

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

var gormScenarios = []scenario{
	{"connect and raw SQL", gormConnect},
	{"create, read, update, delete", gormCrud},
	{"upserts and batches", gormBatches},
	{"queries", gormQueries},
	{"associations", gormAssociations},
	{"types", gormTypes},
	{"serialized json", gormJSON},
	{"transactions and nested savepoints", gormNested},
	{"row locks", gormLocks},
	{"errors", gormErrors},
	{"migration of a model", gormMigrate},
	{"changes of a schema", gormChange},
	{"introspection", gormIntrospection},
	{"rows one by one", gormRows},
}

type gormAccount struct {
	ID      uint
	Owner   string `gorm:"size:30;uniqueIndex;not null"`
	Balance int    `gorm:"default:0;index;check:gorm_solvent,balance >= 0"`
	Created time.Time
	Deleted gorm.DeletedAt
}

type gormAuthor struct {
	ID    uint
	Name  string
	Books []gormBook `gorm:"foreignKey:AuthorID;constraint:OnDelete:CASCADE"`
}

type gormBook struct {
	ID       uint
	Title    string
	AuthorID uint
}

func gormOpen(ctx context.Context) *gorm.DB {
	config := &gorm.Config{Logger: logger.Discard, TranslateError: false}
	return got(gorm.Open(postgres.Open(url()), config)).WithContext(ctx)
}

func gormClose(db *gorm.DB) { check(got(db.DB()).Close()) }

// gormAccounts makes the table of accounts anew, with two of them.
func gormAccounts(ctx context.Context) *gorm.DB {
	db := gormOpen(ctx)
	check(db.Migrator().DropTable(&gormAccount{}))
	check(db.AutoMigrate(&gormAccount{}))
	check(db.Create(&[]gormAccount{{Owner: "ann", Balance: 5}, {Owner: "bob", Balance: 7}}).Error)
	return db
}

func gormConnect(ctx context.Context) {
	db := gormOpen(ctx)
	defer gormClose(db)
	var n int
	check(db.Raw("SELECT ?::int + 1", 1).Scan(&n).Error)
	same(n, 2)
	check(db.Raw("SELECT CAST(@n AS int) + 1", sql.Named("n", 2)).Scan(&n).Error)
	same(n, 3)
}

func gormCrud(ctx context.Context) {
	db := gormAccounts(ctx)
	defer gormClose(db)
	var ann gormAccount
	check(db.First(&ann, "owner = ?", "ann").Error)
	check(db.Model(&ann).Update("balance", gorm.Expr("balance + ?", 1)).Error)
	check(db.First(&ann, ann.ID).Error)
	same(ann.Balance, 6)
	check(db.Delete(&ann).Error)
	same(errors.Is(db.First(&gormAccount{}, ann.ID).Error, gorm.ErrRecordNotFound), true)
	check(db.Unscoped().Where("owner = ?", "ann").Delete(&gormAccount{}).Error)
	check(db.FirstOrCreate(&gormAccount{}, gormAccount{Owner: "eve"}).Error)
	var count int64
	check(db.Model(&gormAccount{}).Count(&count).Error)
	same(count, int64(2))
}

func gormBatches(ctx context.Context) {
	db := gormAccounts(ctx)
	defer gormClose(db)
	conflict := clause.OnConflict{
		Columns:   []clause.Column{{Name: "owner"}},
		DoUpdates: clause.AssignmentColumns([]string{"balance"}),
	}
	check(db.Clauses(conflict).Create(&gormAccount{Owner: "ann", Balance: 9}).Error)
	check(db.Clauses(clause.OnConflict{DoNothing: true}).Create(&gormAccount{Owner: "bob", Balance: 9}).Error)
	many := make([]gormAccount, 300)
	for i := range many {
		many[i] = gormAccount{Owner: string(rune(0x4e00 + i)), Balance: 1}
	}
	check(db.CreateInBatches(many, 100).Error)
	var sum int
	check(db.Model(&gormAccount{}).Select("sum(balance)").Scan(&sum).Error)
	same(sum, 316)
	var changed []gormAccount
	check(db.Model(&changed).Clauses(clause.Returning{}).Where("balance > 5").Update("balance", 2).Error)
	same(len(changed), 2)
}

func gormQueries(ctx context.Context) {
	db := gormAccounts(ctx)
	defer gormClose(db)
	var owners []string
	query := db.Model(&gormAccount{}).Where("owner IN ?", []string{"ann", "bob"}).Or(db.Where("balance > ?", 100))
	check(query.Order("balance desc").Limit(5).Pluck("owner", &owners).Error)
	same(owners, []string{"bob", "ann"})
	var found []struct {
		Month time.Time
		Total int
	}
	grouped := db.Model(&gormAccount{}).Select("date_trunc('month', created) AS month, sum(balance) AS total")
	check(grouped.Group("month").Having("sum(balance) > ?", 1).Scan(&found).Error)
	same(found[0].Total, 12)
	richest := db.Model(&gormAccount{}).Select("max(balance)")
	check(db.Model(&gormAccount{}).Where("balance = (?)", richest).Pluck("owner", &owners).Error)
	same(owners, []string{"bob"})
}

func gormAssociations(ctx context.Context) {
	db := gormOpen(ctx)
	defer gormClose(db)
	check(db.Migrator().DropTable(&gormBook{}, &gormAuthor{}))
	check(db.AutoMigrate(&gormAuthor{}, &gormBook{}))
	check(db.Create(&gormAuthor{Name: "ann", Books: []gormBook{{Title: "one"}, {Title: "two"}}}).Error)
	var author gormAuthor
	check(db.Preload("Books").First(&author).Error)
	same(len(author.Books), 2)
	fails(db.Create(&gormBook{Title: "x", AuthorID: 99}).Error, "23503")
	check(db.Delete(&author).Error)
	var count int64
	check(db.Model(&gormBook{}).Count(&count).Error)
	same(count, int64(0))
}

func gormTypes(ctx context.Context) {
	type gormTyped struct {
		ID    string `gorm:"type:uuid;default:gen_random_uuid();primaryKey"`
		Price string `gorm:"type:numeric(10,2)"`
		Big   int64
		Ratio float64
		Data  []byte
		Good  bool
		Day   time.Time `gorm:"type:date"`
		At    *time.Time
	}
	db := gormOpen(ctx)
	defer gormClose(db)
	check(db.Migrator().DropTable(&gormTyped{}))
	check(db.AutoMigrate(&gormTyped{}))
	day := time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	given := gormTyped{Price: "1.50", Big: 1 << 62, Ratio: 1.5, Data: []byte{0, 255}, Good: true, Day: day}
	check(db.Create(&given).Error)
	var found gormTyped
	check(db.First(&found).Error)
	same(found, given)
}

func gormJSON(ctx context.Context) {
	type gormDoc struct {
		ID  uint
		Doc map[string]any `gorm:"serializer:json;type:jsonb"`
	}
	db := gormOpen(ctx)
	defer gormClose(db)
	check(db.Migrator().DropTable(&gormDoc{}))
	check(db.AutoMigrate(&gormDoc{}))
	check(db.Create(&gormDoc{Doc: map[string]any{"a": 1.0}}).Error)
	var found gormDoc
	check(db.Where("doc ->> 'a' = ?", "1").First(&found).Error)
	same(found.Doc, map[string]any{"a": 1.0})
}

func gormNested(ctx context.Context) {
	db := gormAccounts(ctx)
	defer gormClose(db)
	check(db.Transaction(func(tx *gorm.DB) error {
		err := tx.Transaction(func(inner *gorm.DB) error {
			check(inner.Create(&gormAccount{Owner: "c"}).Error)
			return inner.Create(&gormAccount{Owner: "ann"}).Error
		})
		fails(err, "23505")
		check(tx.SavePoint("a_point").Error)
		check(tx.Where("1 = 1").Delete(&gormAccount{}).Error)
		check(tx.RollbackTo("a_point").Error)
		return tx.Create(&gormAccount{Owner: "d"}).Error
	}))
	var count int64
	check(db.Model(&gormAccount{}).Count(&count).Error)
	same(count, int64(3))
	options := &sql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true}
	fails(db.Transaction(func(tx *gorm.DB) error { return tx.Create(&gormAccount{Owner: "x"}).Error }, options), "25006")
}

func gormLocks(ctx context.Context) {
	db := gormAccounts(ctx)
	defer gormClose(db)
	check(db.Transaction(func(tx *gorm.DB) error {
		var found []gormAccount
		return tx.Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).Find(&found).Error
	}))
}

func gormErrors(ctx context.Context) {
	db := gormAccounts(ctx)
	defer gormClose(db)
	fails(db.Create(&gormAccount{Owner: "ann"}).Error, "23505")
	fails(db.Create(&gormAccount{Owner: "x", Balance: -1}).Error, "23514")
	fails(db.Exec("SELECT * FROM nosuch").Error, "42P01")
	translated := got(gorm.Open(postgres.Open(url()), &gorm.Config{Logger: logger.Discard, TranslateError: true}))
	defer gormClose(translated)
	same(errors.Is(translated.Create(&gormAccount{Owner: "ann"}).Error, gorm.ErrDuplicatedKey), true)
}

func gormMigrate(ctx context.Context) {
	db := gormAccounts(ctx)
	defer gormClose(db)
	check(db.AutoMigrate(&gormAccount{}))
	check(db.Table("gorm_accounts").AutoMigrate(&struct {
		gormAccount
		Owner string `gorm:"size:60"`
		Note  string
	}{}))
	same(db.Migrator().HasColumn(&gormAccount{}, "note"), true)
}

func gormChange(ctx context.Context) {
	db := gormAccounts(ctx)
	defer gormClose(db)
	migrator := db.Migrator()
	check(migrator.RenameColumn(&gormAccount{}, "balance", "amount"))
	check(migrator.RenameColumn(&gormAccount{}, "amount", "balance"))
	check(migrator.DropIndex(&gormAccount{}, "idx_gorm_accounts_balance"))
	check(migrator.DropConstraint(&gormAccount{}, "gorm_solvent"))
	check(migrator.CreateConstraint(&gormAccount{}, "gorm_solvent"))
	check(migrator.DropColumn(&gormAccount{}, "created"))
	check(migrator.RenameTable("gorm_accounts", "gorm_renamed"))
	check(migrator.DropTable("gorm_renamed"))
}

func gormIntrospection(ctx context.Context) {
	db := gormAccounts(ctx)
	defer gormClose(db)
	migrator := db.Migrator()
	same(migrator.HasTable("gorm_accounts"), true)
	same(migrator.HasIndex(&gormAccount{}, "idx_gorm_accounts_owner"), true)
	same(migrator.HasConstraint(&gormAccount{}, "gorm_solvent"), true)
	columns := got(migrator.ColumnTypes(&gormAccount{}))
	length, _ := columns[1].Length()
	primary, _ := columns[0].PrimaryKey()
	same([]any{len(columns), length, primary, columns[1].DatabaseTypeName()}, []any{5, int64(30), true, "varchar"})
	indexes := got(migrator.GetIndexes(&gormAccount{}))
	same(len(indexes), 2)
	same(migrator.CurrentDatabase() != "", true)
	same(len(got(migrator.GetTables())) > 0, true)
}

func gormRows(ctx context.Context) {
	db := gormOpen(ctx)
	defer gormClose(db)
	rows := got(db.Raw("SELECT * FROM generate_series(1, 100) AS n").Rows())
	defer rows.Close()
	sum := 0
	for rows.Next() {
		var n int
		check(rows.Scan(&n))
		sum += n
	}
	same(sum, 5050)
}
