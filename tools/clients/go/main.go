// Scenarios of Go clients: each a function, of which one line tells the result.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/lib/pq"
)

const limit = 20 * time.Second

type scenario struct {
	name string
	run  func(ctx context.Context)
}

type client struct {
	module    string
	scenarios []scenario
}

var clients = map[string]client{
	"pgx":   {"github.com/jackc/pgx/v5", pgxScenarios},
	"pq":    {"github.com/lib/pq", pqScenarios},
	"gorm":  {"gorm.io/gorm", gormScenarios},
	"goose": {"github.com/pressly/goose/v3", gooseScenarios},
}

func url() string { return os.Getenv("CLIENT_URL") }

// check ends a scenario with an error.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// got returns a value, and ends the scenario if there is an error.
func got[T any](value T, err error) T {
	check(err)
	return value
}

// same ends a scenario if two values differ.
func same(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Errorf("%v, expected %v", found, expected))
	}
}

// fails requires an error with a SQLSTATE.
func fails(err error, state string) error {
	if err == nil {
		panic(fmt.Errorf("no error, expected %s", state))
	}
	if sqlstate(err) != state {
		panic(fmt.Errorf("%w, expected %s", err, state))
	}
	return err
}

func sqlstate(err error) string {
	var ofPgx *pgconn.PgError
	var ofPq *pq.Error
	if errors.As(err, &ofPgx) {
		return ofPgx.Code
	}
	if errors.As(err, &ofPq) {
		return string(ofPq.Code)
	}
	return ""
}

func version(module string) string {
	info, _ := debug.ReadBuildInfo()
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return strings.TrimPrefix(dependency.Version, "v")
		}
	}
	return ""
}

// attempt runs a scenario; what it panics with is the error.
func attempt(one scenario) (failure any) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		one.run(ctx)
	}()
	select {
	case failure = <-done:
	case <-time.After(limit + time.Second):
		failure = fmt.Sprintf("no end after %s", limit)
	}
	return failure
}

func main() {
	chosen := clients[os.Args[1]]
	fmt.Println("version", version(chosen.module))
	for _, one := range chosen.scenarios {
		if !strings.Contains(one.name, os.Getenv("CLIENT_ONLY")) {
			continue
		}
		if failure := attempt(one); failure != nil {
			fmt.Printf("FAIL %s: %s\n", one.name, strings.Join(strings.Fields(fmt.Sprint(failure)), " "))
		} else {
			fmt.Println("ok", one.name)
		}
	}
}
