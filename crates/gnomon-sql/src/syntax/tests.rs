//! Tests of texts that are read, and of the errors of those that are wrong.

use gnomon_parser::ast::Statement;

use super::*;

fn trees(sql: &str) -> Result<Vec<Parsed>> {
    let statements = parse(sql, StringRules::default(), &mut |_| Ok(()), &mut Vec::new())
        .map_err(|error| error.located_in(sql))?;
    statements.into_iter().map(|one| one.into_parsed(sql)).collect()
}

/// Returns state, message and position of what is said of a text.
fn refusal(sql: &str) -> (&'static str, String, Option<usize>) {
    let error = trees(sql).expect_err(sql);
    (error.state().0, error.report().message.clone(), error.report().position)
}

#[test]
fn statements_are_cut_at_semicolons() {
    assert_eq!(trees("").unwrap().len(), 0);
    assert_eq!(trees(" ; -- nothing\n /* ; */ ;").unwrap().len(), 0);
    let sql = "SELECT ';' ; SELECT \"a;b\" FROM t;";
    let ranges: Vec<_> = trees(sql).unwrap().iter().map(|parsed| &sql[parsed.range.clone()]).collect();
    assert_eq!(ranges, ["SELECT ';'", "SELECT \"a;b\" FROM t"]);
}

#[test]
fn errors_say_where() {
    for (sql, message, position) in [
        ("SELEC 1", "syntax error at or near \"SELEC\"", Some(1)),
        ("SELECT 1 +", "syntax error at end of input", Some(11)),
        ("SELECT 1;\n  SELECT ä )", "syntax error at or near \")\"", Some(22)),
        ("SELECT 'open", "unterminated quoted string at or near \"'open\"", Some(8)),
        ("FETCH 3", "syntax error at end of input", Some(8)),
        ("COMMIT nonsense", "syntax error at or near \"nonsense\"", Some(8)),
    ] {
        assert_eq!(refusal(sql), ("42601", message.to_owned(), position), "{sql}");
    }
    // Clients of the protocol cannot send it.
    assert_eq!(refusal("select 'a\0b'").0, "22021");
}

/// Those behind the first hundred are kept as their place in the text.
#[test]
fn trees_of_long_texts_are_made_again() {
    let sql: String = (0..250).map(|number| format!("SELECT {number} AS ä{number};\n")).collect();
    let statements = parse(&sql, StringRules::default(), &mut |_| Ok(()), &mut Vec::new()).unwrap();
    let ranges = statements.iter().filter(|statement| matches!(statement, Written::Range(..)));
    assert_eq!(ranges.count(), 250 - TREES_MAX);
    for (number, statement) in statements.iter().enumerate() {
        let parsed = statement.parsed(&sql).unwrap();
        let text = &sql[parsed.range.clone()];
        assert_eq!(text, format!("SELECT {number} AS ä{number}"));
        let Statement::Query(query) = &parsed.statement else { panic!("{text}") };
        let gnomon_parser::ast::QueryBody::Select(select) = &query.body else { panic!("{text}") };
        let place = select.targets[0].position.byte().unwrap();
        assert_eq!(&sql[place..place + number.to_string().len()], number.to_string());
    }
}

#[test]
fn the_watch_is_told_of_long_texts_and_may_end_them() {
    let sql = format!("SELECT 0{}", ", 1".repeat(100_000));
    let mut told = Vec::new();
    let mut tell = |tokens| {
        told.push(tokens);
        Ok(())
    };
    parse(&sql, StringRules::default(), &mut tell, &mut Vec::new()).unwrap();
    assert!(
        told.len() > 10 && told.is_sorted() && told.last().is_some_and(|last| *last > 200_000),
        "{told:?}"
    );
    let mut refuse = |tokens| match tokens > 50_000 {
        true => Err(SqlError::new(SqlState::OUT_OF_MEMORY, "enough")),
        false => Ok(()),
    };
    let refused = parse(&sql, StringRules::default(), &mut refuse, &mut Vec::new());
    assert_eq!(refused.unwrap_err().state(), SqlState::OUT_OF_MEMORY);
}

#[test]
fn names_that_are_cut_are_told_of() {
    let (long, cut) = ("x".repeat(62) + "äy", "x".repeat(62));
    let sql = format!("SELECT {long} FROM \"{long}\"; SELECT {cut}");
    let mut notices = Vec::new();
    parse(&sql, StringRules::default(), &mut |_| Ok(()), &mut notices).unwrap();
    assert_eq!(notices.len(), 2);
    for notice in &notices {
        assert_eq!(notice.state(), SqlState::NAME_TOO_LONG);
        let message = format!("identifier \"{long}\" will be truncated to \"{cut}\"");
        assert_eq!(notice.report().message, message);
    }
}

#[test]
fn nesting_is_measured_and_bounded() {
    let nesting = |sql: &str| trees(sql).expect(sql)[0].nesting;
    assert!(nesting(&format!("SELECT 1{}", " + 1".repeat(400))) >= 100, "a chain is as deep as it is long");
    assert!(nesting(&format!("SELECT {}1", "- ".repeat(400))) >= 400, "signs nest");
    assert!(nesting(&format!("SELECT {}", vec!["a = 1"; 200].join(", "))) < 10, "a list is not deep");
    for deep in ["(", "-(", "NOT ", "ARRAY[", "CASE WHEN ", "f(", "(SELECT ", "a = NOT "] {
        assert_eq!(refusal(&format!("SELECT {}", deep.repeat(5000))).0, "54001", "{deep}");
    }
    assert_eq!(refusal(&format!("SELECT 1{}", " + 1".repeat(20_000))).0, "54001");
    trees(&format!("SELECT true{}", " AND true".repeat(20_000))).expect("a chain of AND is one list");
    trees(&format!("SELECT 1{}", " UNION SELECT 1".repeat(5000))).expect("a chain of UNION is one list");
}

#[test]
fn trees_of_kept_texts_have_no_places() {
    let shown = format!("{:?} {:?}", parse_expression("a + \n 'b'::date"), parse_query("SELECT a\nFROM t"));
    assert!(shown.contains("@-") && !shown.contains("@0") && !shown.contains("@4"), "{shown}");
    assert_eq!(parse_expression("a +").unwrap_err().state().0, "55000");
}
