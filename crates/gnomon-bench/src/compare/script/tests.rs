use super::*;

/// What a script consists of, a line a command.
fn read(text: &str) -> Vec<String> {
    let script = Script::parse("s.sql", text, &[("given".into(), "1".into())]).unwrap();
    let names = &script.names;
    let command = |(number, Command { line, action }): (usize, &Command)| {
        let what = match action {
            Action::Run(statement) => {
                let kept = statement.kept.as_ref().map(|kept| format!(" {kept} {}", kept.prefix));
                let text = match statement.is_prepared {
                    true => statement.parameterized(),
                    false => format!("text: {}", statement.source(names)),
                };
                let variables: Vec<_> = statement.variables().map(|number| names.name(number)).collect();
                format!("{text} [{}]{}", variables.join(" "), kept.unwrap_or_default())
            }
            Action::Set(number, _) => format!("set {}", names.name(*number)),
            Action::Sleep(pause) => format!("sleep {:?}", pause.duration(names, &vec![])),
            Action::JumpUnless(_, to) => format!("unless {to}"),
            Action::Jump(to) => format!("jump {to}"),
        };
        format!("{number} line {line}: {what}")
    };
    script.commands.iter().enumerate().map(command).collect()
}

fn refused(text: &str) -> String {
    Script::parse("s.sql", text, &[]).unwrap_err()
}

/// One of PostgreSQL's own scripts, if pgbench is installed.
fn built_in(name: &str) -> Option<String> {
    let output = std::process::Command::new("pgbench").arg(format!("--show-script={name}")).output().ok()?;
    Some(String::from_utf8(output.stderr).unwrap())
}

#[test]
fn the_built_in_scripts_of_pgbench_are_read_unchanged() {
    let names = ["tpcb-like", "simple-update", "select-only"];
    let [Some(tpcb), Some(update), Some(select)] = names.map(built_in) else {
        println!("skipped: pgbench is not installed");
        return;
    };
    let sets = [
        "0 line 2: set aid",
        "1 line 3: set bid",
        "2 line 4: set tid",
        "3 line 5: set delta",
        "4 line 6: BEGIN []",
        "5 line 7: UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2 [delta aid]",
        "6 line 8: SELECT abalance FROM pgbench_accounts WHERE aid = $1 [aid]",
    ];
    let history = "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP) \
                   [tid bid aid delta]";
    let tpcb = read(&tpcb);
    assert_eq!(tpcb[..7], sets);
    assert_eq!(
        tpcb[7..],
        [
            "7 line 9: UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2 [delta tid]",
            "8 line 10: UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2 [delta bid]",
            &format!("9 line 11: {history}"),
            "10 line 12: END []",
        ]
    );
    let update = read(&update);
    assert_eq!(update[..7], sets);
    assert_eq!(update[7..], [format!("7 line 9: {history}"), "8 line 10: END []".to_owned()]);
    assert_eq!(
        read(&select),
        ["0 line 2: set aid", "1 line 3: SELECT abalance FROM pgbench_accounts WHERE aid = $1 [aid]"]
    );
}

#[test]
fn conditions_become_jumps() {
    assert_eq!(
        read(
            "\\if :given = 1\nA;\n\\elif :given = 2\nB;\n\\if 1\nC;\n\\endif\n\\else\nD;\n\\endif\n\\if 0\n\\endif\nE;"
        ),
        [
            "0 line 1: unless 3",
            "1 line 2: A []",
            "2 line 3: jump 9",
            "3 line 3: unless 8",
            "4 line 4: B []",
            "5 line 5: unless 7",
            "6 line 6: C []",
            "7 line 8: jump 9",
            "8 line 9: D []",
            "9 line 11: unless 10",
            "10 line 13: E []",
        ]
    );
}

#[test]
fn variables_are_what_stands_outside_of_quotes_and_is_no_cast() {
    assert_eq!(
        read(
            "SELECT :given::int, ':given', \":given\", '10:30', a::text /* :given */, b[1:2], :given-1 -- :given\n;"
        ),
        [
            "0 line 1: SELECT $1::int, ':given', \":given\", '10:30', a::text /* :given */, b[1:2], $2-1 -- :given \
          [given given]"
        ]
    );
    assert_eq!(
        read("SET statement_timeout = :given;\nCALL p(:given);\n(SELECT :given);"),
        [
            "0 line 1: text: SET statement_timeout = :given [given]",
            "1 line 2: CALL p($1) [given]",
            "2 line 3: (SELECT $1) [given]",
        ]
    );
}

#[test]
fn commands_end_statements_and_go_over_lines() {
    assert_eq!(
        read(
            "SELECT 1 AS one,\n  2 AS two \\gset p_\nSELECT :p_one\n\\set x (1 + \\\n  2) * \\\n 3\n\\sleep 10 ms\nSELECT 3 \\aset\n\\sleep 1\n"
        ),
        [
            "0 line 1: SELECT 1 AS one,\n  2 AS two [] \\gset p_",
            "1 line 3: SELECT $1 [p_one]",
            "2 line 4: set x",
            "3 line 7: sleep Ok(10ms)",
            "4 line 8: SELECT 3 [] \\aset ",
            "5 line 9: sleep Ok(1s)",
        ]
    );
}

#[test]
fn what_is_not_understood_is_refused_with_its_line() {
    for (text, reason) in [
        ("SELECT 1;\n\\sett x 1", "s.sql:2: there is no command \\sett: there are \\set, \\if"),
        ("\\set x", "s.sql:1: \\set: write \\set NAME EXPRESSION"),
        ("\\set 1x 2", "s.sql:1: \\set: write \\set NAME EXPRESSION"),
        ("\n\\set x 1 +", "s.sql:2: \\set: an expression is expected"),
        (
            "\\set x :y\nSELECT :x;",
            "s.sql:1: \\set: variable y is not set: set it by \\set before, or by --define y=",
        ),
        ("SELECT 1;\nSELECT\n :x;\n\\set x 1", "s.sql:2: variable x is not set"),
        ("\\sleep :x\nSELECT 1", "s.sql:1: variable x is not set"),
        ("\\shell ls", "s.sql:1: \\shell: shell commands are not run here"),
        ("\\setshell x ls", "s.sql:1: \\setshell: shell commands are not run here"),
        ("\\startpipeline", "s.sql:1: \\startpipeline: there are no pipelines here"),
        ("SELECT 1 \\; SELECT 2;", "s.sql:1: \\; is not supported"),
        ("\\gset", "s.sql:1: \\gset: it ends a query"),
        ("SELECT 1 \\gset 1-", "s.sql:1: \\gset: '1-' is not what"),
        ("\\sleep 1 h", "s.sql:1: \\sleep: write \\sleep NUMBER"),
        ("\\sleep -1", "s.sql:1: \\sleep: write \\sleep NUMBER"),
        ("\\if 1\n\\if 2\n\\endif", "s.sql:1: \\if has no \\endif"),
        ("\\endif", "s.sql:1: \\endif: there is no \\if before it"),
        ("\\else", "s.sql:1: \\else: there is no \\if before it"),
        ("\\if 1\n\\else\n\\elif 1", "s.sql:3: \\elif: there is no \\if before it, or an \\else"),
        ("\\if 1\n\\else 2", "s.sql:2: \\else: '2' is not expected"),
        ("\\set x 1", "s.sql: there is no statement in it"),
        ("-- nothing\n", "s.sql: there is no statement in it"),
    ] {
        let said = refused(text);
        assert!(said.starts_with(reason), "{text}: {said}");
    }
}

#[test]
fn clients_begin_with_what_is_preset_and_defined() {
    let defined = [("scale".to_owned(), "5".to_owned()), ("n".to_owned(), "x".to_owned())];
    let script =
        Script::parse("s", "SELECT :scale, :client_id, :n, :random_seed, :default_seed", &defined).unwrap();
    let variables = script.variables(3, 42, 10);
    let Action::Run(statement) = &script.commands[0].action else { panic!() };
    let filled = statement.filled(&script.names, &variables).unwrap();
    assert!(filled.starts_with("SELECT 5, 3, x, 42, "), "{filled}");
    assert_eq!(script.defined().count(), 2);
}
