//! Pages of a small result, and results that cannot be read.

use std::fs;

use super::*;

/// A result as a program wrote it.
const RESULT: &str = include_str!("result.json");

fn result() -> serde_json::Value {
    serde_json::from_str(RESULT).unwrap()
}

/// Stores results in `PAPER/NAME` each.
fn store(directory: &Path, results: &[serde_json::Value]) {
    for result in results {
        let of_one = directory.join(result["experiment"].as_str().unwrap());
        fs::create_dir_all(&of_one).unwrap();
        put(&of_one.join(FILE), &result.to_string());
    }
}

#[expect(clippy::disallowed_methods, reason = "a report is no part of a database")]
fn put(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
}

fn page(results: &[serde_json::Value]) -> String {
    let directory = tempfile::tempdir().unwrap();
    store(directory.path(), results);
    render(&gather(directory.path()).unwrap().reports, Path::new("my results"))
}

fn assert_all(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "no {part} in {page}");
    }
}

#[test]
fn a_page_has_all_that_a_result_says() {
    let page = page(&[result()]);
    assert!(page.starts_with("<!DOCTYPE html><html lang=\"en\">"));
    assert_all(
        &page,
        &[
            "<title>3 stated figures, measured again</title>",
            "<strong>2026-11-25 21:30 UTC</strong> with gnomon 0.1.0 on 2 processors (A &lt;fast&gt; one), 8.0 GiB of \
             memory, Linux 6.1, databases in ext4 on /dev/vda.",
            "<a href=\"#semantics-mpl\">mpl</a>",
            "id=\"semantics-mpl\"",
            "Kumar and Stonebraker 1987",
            "Throughput by level",
            "27 % &amp; more",
            "<code>gnomon-lab run semantics/mpl --quick --seed 3 --set 'mpls=5, 15'</code>",
            "All quick runs.",
            "A quick run.",
            "<code>mpls=5, 15</code>",
            "tps: transactions a second",
            "the text leaves things open",
            "<td class=\"number\">0.40</td>",
            "<td>DBMS</td>",
            "DBMS, stated",
            "<title>DBMS: 0.4000 transactions/s at 5.000 multiprogramming level</title>",
        ],
    );
    assert!(!page.contains("debug build") && !page.contains("<script"));
    for verdict in ["holds", "does not hold", "not comparable"] {
        assert!(page.contains(&format!("</svg>{verdict}</span>")), "a colour never stands alone: {verdict}");
    }
    // Nothing is fetched.
    assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("://") && !page.contains("url("));
}

#[test]
fn what_was_not_run_is_named_with_its_command() {
    let page = page(&[result()]);
    assert_all(
        &page,
        &[
            "<code>gnomon-lab run shadow/tpcb shadow/cleaning shadow/snapshot --out 'my results'</code>",
            "semantics/compression-cost semantics/today --out 'my results'</code>",
            "<code>gnomon-lab run operations/hot-rows operations/patterns --out 'my results'</code>",
        ],
    );
    // One alone has its directory named.
    let mut hot_rows = result();
    hot_rows["experiment"] = "operations/hot-rows".into();
    let one = "<code>gnomon-lab run operations/patterns --out 'my results/operations/patterns'</code>";
    assert_all(&self::page(&[result(), hot_rows]), &[one]);
    assert!(!page.contains("gnomon-lab run semantics/mpl semantics"));
}

#[test]
fn experiments_that_this_program_does_not_know_are_shown_behind_the_others() {
    let mut unknown = result();
    unknown["experiment"] = "later/<new>".into();
    unknown["machine"]["processors"] = 64.into();
    unknown["debug_build"] = true.into();
    unknown["quick"] = false.into();
    let page = page(&[unknown, result()]);
    assert_all(
        &page,
        &[
            "<h2 id=\"later\">later</h2>",
            "id=\"later--new-\"",
            "later/&lt;new&gt;",
            "2 machines",
            "1 of 2 quick runs.",
        ],
    );
    assert_all(&page, &["1 of 2 by a debug build.", "A debug build.", "64 processors"]);
    assert!(page.find("id=\"semantics-mpl\"") < page.find("id=\"later--new-\""));
}

#[test]
fn the_last_run_of_an_experiment_is_shown() {
    let directory = tempfile::tempdir().unwrap();
    let mut later = result();
    later["measured_at"] = "2026-11-26T08:00:00Z".into();
    let (first, second) = (directory.path().join("a"), directory.path().join("b"));
    store(&first, &[later]);
    store(&second, &[result()]);
    let gathered = gather(directory.path()).unwrap();
    assert_eq!(gathered.reports.len(), 1);
    assert_eq!(gathered.reports[0].measured_at, "2026-11-26T08:00:00Z");
    assert_eq!(gathered.earlier, [second.join("semantics/mpl").join(FILE)]);
}

#[test]
fn a_directory_without_results_and_damaged_ones_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |directory: &Path| gather(directory).unwrap_err().to_string();
    let none = directory.path().join("none");
    assert!(refused(&none).starts_with(&format!("{}: ", none.display())));
    let empty = refused(directory.path());
    assert!(empty.starts_with("there is no result.json in ") && empty.contains("gnomon-lab run"), "{empty}");
    store(directory.path(), &[result()]);
    let file = directory.path().join("semantics/mpl").join(FILE);
    let mut newer = result();
    newer["format"] = 7.into();
    put(&file, &newer.to_string());
    let newer = refused(directory.path());
    assert!(newer.starts_with(&format!("{}: in format 7", file.display())), "{newer}");
    put(&file, &RESULT[..RESULT.len() / 2]);
    let damaged = refused(directory.path());
    assert!(damaged.starts_with(&format!("{}: not a result", file.display())), "{damaged}");
}
