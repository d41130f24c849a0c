//! Statements and their trees, in `golden/`. `GNOMON_UPDATE_GOLDEN=1` writes the trees.

mod support;

use std::{fmt::Write, fs, path::Path};

use support::compact;

/// The tree of a text, or its error.
fn answer(sql: &str) -> String {
    match gnomon_parser::parse(sql) {
        Ok(statements) => {
            let trees: Vec<String> = statements.iter().map(|parsed| compact(&parsed.statement)).collect();
            trees.join("\n")
        }
        Err(error) => {
            let hint = error.hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
            format!("error {} {:?}: {error}{hint}", error.kind.sqlstate(), error.position)
        }
    }
}

/// A block is a statement behind `> ` on each of its lines, and its answer.
#[test]
fn statements_have_their_trees() {
    let update = std::env::var_os("GNOMON_UPDATE_GOLDEN").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut blocks = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let mut written = String::new();
        for block in text.split("\n\n").map(str::trim).filter(|block| !block.is_empty()) {
            let (comments, lines): (Vec<&str>, Vec<&str>) =
                block.lines().partition(|line| line.starts_with('#'));
            for comment in comments {
                writeln!(written, "{comment}").unwrap();
            }
            let sql: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("> ")).collect();
            if sql.is_empty() {
                written.push('\n');
                continue;
            }
            for line in &sql {
                writeln!(written, "> {line}").unwrap();
            }
            writeln!(written, "{}\n", answer(&sql.join("\n"))).unwrap();
            blocks += 1;
        }
        let written = format!("{}\n", written.trim_end());
        if update {
            #[expect(clippy::disallowed_methods, reason = "a test's own file")]
            fs::write(&path, written).unwrap();
        } else {
            for (have, want) in written.split("\n\n").zip(text.trim().split("\n\n")) {
                assert_eq!(have.trim(), want.trim(), "GNOMON_UPDATE_GOLDEN=1 takes the new tree");
            }
            assert_eq!(written.trim(), text.trim());
        }
    }
    assert!(blocks > 150, "{blocks}");
}
