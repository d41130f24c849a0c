//! What statements are taken for, and what is said of those that are wrong.

use sqlparser::tokenizer::Span;

use super::*;

fn parse(sql: &str) -> Result<Vec<Parsed>> {
    super::parse(sql, &mut |_| Ok(()))?.into_iter().map(|one| one.into_parsed(sql)).collect()
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
            r#"Begin { modes: [Isolation("repeatable read"), ReadOnly(true)], tag: "BEGIN" }"#,
        ),
        (
            "START TRANSACTION READ WRITE NOT DEFERRABLE",
            r#"Begin { modes: [ReadOnly(false), Deferrable(false)], tag: "START TRANSACTION" }"#,
        ),
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
    assert_eq!(error("SELECT 'open").0, "unterminated quoted string at or near \"'open\"");
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

/// State, message and position as PostgreSQL 15 gives them; 0A000 where it has a value.
#[test]
fn constants_are_refused_as_in_postgres() {
    const NUL: &str = "invalid byte sequence for encoding \"UTF8\": 0x00";
    for (literal, state, message, position) in [
        (r"E'\x00'", "22021", NUL, None),
        (r"E'a\0b'", "22021", NUL, None),
        (r"E'a\000'", "22021", NUL, None),
        (r"E'ä\400'", "22021", NUL, None),
        (r"E'\xff'", "22021", "invalid byte sequence for encoding \"UTF8\": 0xff", None),
        (r"E'\xc3'", "22021", "invalid byte sequence for encoding \"UTF8\": 0xc3", None),
        (r"E'\xe4\u0041'", "22021", "invalid byte sequence for encoding \"UTF8\": 0xe4 0x41", None),
        (r"E'caf\351 au'", "22021", "invalid byte sequence for encoding \"UTF8\": 0xe9 0x20 0x61", None),
        (r"E'\u0000'", "42601", r#"invalid Unicode escape value at or near "\u0000""#, Some(10)),
        (r"E'ä\U00000000'", "42601", r#"invalid Unicode escape value at or near "\U00000000""#, Some(11)),
        (r"E'\U00110000'", "42601", r#"invalid Unicode escape value at or near "\U00110000""#, Some(10)),
        (r"E'\u12'", "22025", "invalid Unicode escape", Some(10)),
        (r"E'\ud83d'", "42601", r#"invalid Unicode surrogate pair at or near "'""#, Some(16)),
        (r"E'\ud83dx'", "42601", r#"invalid Unicode surrogate pair at or near "x""#, Some(16)),
        (r"E'\ud83d\u0041'", "42601", r#"invalid Unicode surrogate pair at or near "\u0041""#, Some(16)),
        (r"E'\ude00'", "42601", r#"invalid Unicode surrogate pair at or near "\ude00""#, Some(10)),
        (r"E'\ud83d", "42601", "invalid Unicode surrogate pair at end of input", Some(16)),
        (r"E'\ud83d\ude00'", "0A000", "a character of several escapes is not supported", Some(8)),
        (r"E'\xc3\xa4'", "0A000", "a character of several escapes is not supported", Some(8)),
        (r"E'\x41", "42601", r#"unterminated quoted string at or near "E'\x41""#, Some(8)),
        (r"E'\", "42601", r#"unterminated quoted string at or near "E'\""#, Some(8)),
        (r"U&'\0000'", "42601", "invalid Unicode escape value", Some(11)),
        (r"U&'ä\\0000\0000'", "42601", "invalid Unicode escape value", Some(18)),
        (r"U&'\+000000'", "42601", "invalid Unicode escape value", Some(11)),
        (r"U&'\+110000'", "42601", "invalid Unicode escape value", Some(11)),
        (r"U&'\00'", "42601", "invalid Unicode escape", Some(11)),
        (r"U&'a''\zz'", "42601", "invalid Unicode escape", Some(13)),
        (r"U&'\d83d'", "42601", "invalid Unicode surrogate pair", Some(16)),
        (r"U&'\de00'", "42601", "invalid Unicode surrogate pair", Some(11)),
        (r"U&'\d83d\de00'", "0A000", "a character of several escapes is not supported", Some(8)),
        (r"U&'\00", "42601", r#"unterminated quoted string at or near "U&'\00""#, Some(8)),
        ("'a", "42601", "unterminated quoted string at or near \"'a\"", Some(8)),
        ("\"a b", "42601", "unterminated quoted identifier at or near \"\"a b\"", Some(8)),
        ("$a$ $$", "42601", "unterminated dollar-quoted string at or near \"$a$ $$\"", Some(8)),
        ("N'a", "42601", "unterminated quoted string at or near \"'a\"", Some(9)),
        ("b'01", "42601", "unterminated bit string literal at or near \"b'01\"", Some(8)),
        ("X'1f", "42601", "unterminated hexadecimal string literal at or near \"X'1f\"", Some(8)),
        ("/* a /* b */", "42601", "unterminated /* comment at or near \"/* a /* b */\"", Some(8)),
    ] {
        let error = parse(&format!("select {literal}")).unwrap_err();
        let report = error.report();
        let found = (report.state.0, report.message.as_str(), report.position);
        assert_eq!(found, (state, message, position), "{literal}");
        let has_hint = report.hint.as_ref().is_some_and(|hint| hint.starts_with("Unicode escapes must be "));
        assert_eq!(has_hint, message == "invalid Unicode escape", "{literal}");
    }
    assert_eq!(parse("select 'a\0b'").unwrap_err().state().0, "22021");
}
