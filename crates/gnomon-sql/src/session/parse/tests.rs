//! What statements are taken for, and what is said of those that are wrong.

use sqlparser::tokenizer::Span;

use super::*;

fn parse(sql: &str) -> Result<Vec<Parsed>> {
    super::parse(sql, &mut |_| Ok(()))
}

fn commands(sql: &str) -> Vec<String> {
    parse(sql).unwrap().into_iter().map(|parsed| format!("{:?}", parsed.command)).collect()
}

fn error(sql: &str) -> (String, Option<usize>) {
    let error = parse(sql).unwrap_err();
    assert_eq!(error.state(), SqlState::SYNTAX_ERROR, "{sql}");
    (error.report().message.clone(), error.report().position)
}

#[test]
fn stored_texts_have_no_places() {
    use ast::Spanned;
    assert_eq!(parse_expression("a + \n  'b'::date").unwrap().span(), Span::empty());
    assert_eq!(parse_query("SELECT a\nFROM t WHERE b").unwrap().span(), Span::empty());
}

#[test]
fn statements_are_cut_at_semicolons() {
    assert_eq!(parse("").unwrap().len(), 0);
    assert_eq!(parse(" ; -- nothing\n /* ; */ ;").unwrap().len(), 0);
    assert_eq!(parse("SELECT ';' ; SELECT \"a;b\" FROM t;").unwrap().len(), 2);
}

#[test]
fn commands_have_their_own_grammar() {
    for (sql, expected) in [
        (
            "begin work isolation level repeatable read, read only",
            r#"Begin([Isolation("repeatable read"), ReadOnly(true)])"#,
        ),
        ("START TRANSACTION READ WRITE NOT DEFERRABLE", "Begin([ReadOnly(false), Deferrable(false)])"),
        ("END AND CHAIN", "Commit { chain: true }"),
        ("abort transaction and no chain", "Rollback { chain: false }"),
        ("SET LOCAL TIME ZONE -3", r#"Set { local: true, name: "timezone", values: Some(["-3"]) }"#),
        (
            "SET search_path TO a, \"B c\"",
            r#"Set { local: false, name: "search_path", values: Some(["a", "B c"]) }"#,
        ),
        ("SET SESSION x.y = DEFAULT", r#"Set { local: false, name: "x.y", values: None }"#),
        ("SHOW TRANSACTION ISOLATION LEVEL", r#"Show(Some("transaction_isolation"))"#),
        ("RESET ALL", "Reset(None)"),
        ("DEALLOCATE PREPARE p", r#"Deallocate(Some("p"))"#),
        ("FETCH FORWARD ALL FROM c", r#"Fetch { name: "c", count: All, discard: false }"#),
        ("MOVE 5 c", r#"Fetch { name: "c", count: Forward(5), discard: true }"#),
        ("CLOSE ALL", "Close(None)"),
        ("VACUUM FULL VERBOSE", "Vacuum([], [\"full\", \"verbose\"])"),
        ("backup to stdout", "Backup(None)"),
        ("BACKUP TO STDOUT SINCE 'x-1'", r#"Backup(Some("x-1"))"#),
        ("DISCARD SEQUENCES", "Discard(Sequences)"),
        ("ROLLBACK WORK TO SAVEPOINT s", r#"RollbackTo("s")"#),
        ("rollback to savepoint", r#"RollbackTo("savepoint")"#),
        ("release a", r#"Release("a")"#),
        ("PREPARE TRANSACTION 'a''b'", r#"PrepareTransaction("a'b")"#),
        ("COMMIT PREPARED 'x'", r#"EndPrepared { gid: "x", commit: true }"#),
        ("ROLLBACK PREPARED 'x'", r#"EndPrepared { gid: "x", commit: false }"#),
        ("SAVEPOINT \"A\"", r#"Savepoint("A")"#),
        ("GRANT ALL ON t TO u", r#"Unsupported("GRANT")"#),
    ] {
        assert_eq!(commands(sql), [expected], "{sql}");
    }
}

#[test]
fn copy_has_old_and_new_options() {
    let options = |sql: &str| match parse(sql).unwrap()[0].command.clone() {
        Command::Copy(copy) => (copy.to, copy.standard, copy.options),
        other => panic!("{other:?}"),
    };
    let text = |text: &str| CopyValue::Text(text.into());
    assert_eq!(
        options("copy t (a, b) from stdin with (format csv, header, delimiter ';', force_null (a))"),
        (
            false,
            true,
            vec![
                ("format".into(), text("csv")),
                ("header".into(), CopyValue::Absent),
                ("delimiter".into(), text(";")),
                ("force_null".into(), CopyValue::Columns(vec!["a".into()])),
            ]
        )
    );
    assert_eq!(
        options("COPY t TO STDOUT CSV HEADER NULL AS '' FORCE QUOTE *"),
        (
            true,
            true,
            vec![
                ("format".into(), text("csv")),
                ("header".into(), CopyValue::Absent),
                ("null".into(), text("")),
                ("force_quote".into(), CopyValue::Star),
            ]
        )
    );
    assert_eq!(options("COPY (SELECT 1) TO PROGRAM 'cat'"), (true, false, vec![]));
}

#[test]
fn what_the_parser_crate_does_not_read_is_put_right() {
    let insert = parse("INSERT INTO t (a) OVERRIDING SYSTEM VALUE VALUES (1)").unwrap()[0].command.clone();
    assert!(matches!(insert, Command::Sql(_, Some(Overriding::System))), "{insert:?}");
    let made = parse("CREATE TABLE t (x, \"Y\") AS SELECT 1, 2").unwrap()[0].command.clone();
    let Command::Sql(statement, _) = made else { panic!("{made:?}") };
    let Statement::CreateTable(create) = *statement else { panic!("{statement}") };
    let names: Vec<String> = create.columns.iter().map(|column| fold(&column.name)).collect();
    assert_eq!(names, ["x", "Y"]);
    parse("CREATE TABLE t (a int GENERATED ALWAYS AS IDENTITY (CYCLE START 3 NO MINVALUE INCREMENT -1))")
        .unwrap();
    parse("CREATE TABLE t (a int CHECK (a > 0), b text)").unwrap();
}

#[test]
fn errors_say_where() {
    assert_eq!(error("SELEC 1"), ("syntax error at or near \"SELEC\"".into(), Some(1)));
    assert_eq!(error("SELECT 1 +"), ("syntax error at end of input".into(), Some(11)));
    assert_eq!(error("SELECT 1;\n  SELECT ä )"), ("syntax error at or near \")\"".into(), Some(22)));
    assert_eq!(error("SELECT 'open").0, "unterminated quoted string");
    assert_eq!(error("FETCH 3"), ("syntax error at end of input".into(), Some(8)));
    assert_eq!(error("COMMIT nonsense"), ("syntax error at or near \"nonsense\"".into(), Some(8)));
}

#[test]
fn nesting_is_measured_before_anything_recurses() {
    let depth = |sql: &str| parse(sql).unwrap()[0].nesting;
    assert!(depth("SELECT ((1))") >= 2);
    assert!(depth(&format!("SELECT 1{}", " + 1".repeat(400))) >= 100, "a chain is as deep as it is long");
    assert!(depth(&format!("SELECT {}1", "- ".repeat(400))) >= 400, "signs nest");
    assert!(depth(&format!("SELECT {}a", "a = NOT ".repeat(400))) >= 400, "what binds less tightly nests");
    assert!(
        depth(&format!("SELECT {}1{}", "(".repeat(9), " + 1)".repeat(9))) >= 12,
        "what follows a bracket counts"
    );
    assert!(depth(&format!("SELECT CASE{} END", " WHEN a = 1 AND b THEN 1 + 1".repeat(400))) < 10);
    assert!(depth(&format!("SELECT 1 FROM t{}", ", t".repeat(400))) >= 400, "members of FROM are joined");
    assert!(depth(&format!("SELECT a IS DISTINCT FROM b{}", ", 1".repeat(400))) < 10);
    assert!(depth(&format!("SELECT {}", vec!["a = 1"; 200].join(", "))) < 10, "a list is not deep");
    assert!(
        depth(&format!("SELECT 1{}", " UNION SELECT 1".repeat(400))) >= 100,
        "a chain in the parser's tree"
    );
    let deep = format!("SELECT {}", "-(".repeat(5000));
    assert_eq!(parse(&deep).unwrap_err().state(), SqlState::STATEMENT_TOO_COMPLEX);
}
