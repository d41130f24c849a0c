//! The page of `gnomon-lab report` in a browser: narrow and wide, light and dark, everything is drawn, legible and
//! within the page. Skipped where Chromium is not installed.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::harness::{Ran, run, text};

/// What measures a page; it says what it is called in its own words.
const MEASURE: &str = include_str!("page.js");

/// Moments of measurement, on two days: the page names both.
const FIRST: &str = "2026-09-29T23:59:59Z";
const LAST: &str = "2026-09-30T00:00:01Z";

/// Runs every kind of figure that takes little time, and makes the page.
fn report(directory: &Path) {
    let out = text(directory);
    let ran = run(&["run", "semantics/*", "shadow/tpcb", "--quick", "--seed", "7", "--out", out]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    for path in results(directory) {
        let mut result: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        result["machine"] = machine();
        result["measured_at"] = if path.starts_with(directory.join("shadow")) { LAST } else { FIRST }.into();
        fs::write(&path, result.to_string()).unwrap();
    }
    let ran = run(&["report", out]);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    assert_eq!(Path::new(ran.stdout.trim()), directory.join("report.html"));
}

/// The machine that the page names: with long names, so that no line breaks elsewhere on the machine of the test.
fn machine() -> Value {
    json!({
        "processors": 128, "processor": "Intel(R) Xeon(R) Platinum 8488C CPU @ 2.40GHz", "memory_bytes": 1u64 << 40,
        "kernel": "Linux 6.14.0-1024-azure-fde", "file_system": "ext4 on /dev/mapper/vg_databases-data",
    })
}

/// Files of results in a directory.
fn results(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.is_dir() {
        true => results(&path),
        false if path.ends_with("result.json") => vec![path],
        false => Vec::new(),
    };
    entries.flat_map(of).collect()
}

/// Number of panels of the results in a directory.
fn panels(directory: &Path) -> usize {
    let of = |path: PathBuf| {
        let result: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let figures = result["figures"].as_array().unwrap();
        figures.iter().map(|figure| figure["panels"].as_array().unwrap().len()).sum::<usize>()
    };
    results(directory).into_iter().map(of).sum()
}

/// What the page is found to be in a frame of a size. A frame, since a window has a width at least.
fn measured(directory: &Path, (width, height): (u32, u32), dark: bool) -> Value {
    let frame = directory.join("frame.html");
    let html = format!(
        "<!DOCTYPE html><meta charset=\"utf-8\"><meta name=\"color-scheme\" content=\"light dark\">\
         <iframe src=\"report.html\" style=\"border:0;width:{width}px;height:{height}px\"></iframe><pre></pre>\
         <script>{MEASURE}</script>"
    );
    fs::write(&frame, html).unwrap();
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1500,1000"])
        .args(["--allow-file-access-from-files", "--enable-logging=stderr", "--v=0", "--dump-dom"])
        .arg(format!("--user-data-dir={}", text(profile.path())))
        .arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }))
        .arg(format!("file://{}", text(&frame)))
        .output()
        .unwrap();
    let Ran { code, stdout, stderr } = output.into();
    assert_eq!(code, Some(0), "{stderr}");
    let console: Vec<&str> = stderr.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(console.is_empty(), "{console:?}");
    let found = stdout.split_once("<pre>").and_then(|(_, rest)| rest.split_once("</pre>"));
    let (found, _) = found.unwrap_or_else(|| panic!("{stdout} {stderr}"));
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found} {stderr}"))
}

#[test]
fn a_page_is_legible_on_narrow_and_wide_and_light_and_dark_screens() {
    if Command::new("chromium").arg("--version").output().is_err() {
        println!("skipped: chromium is not installed");
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    report(directory.path());
    let expected = panels(directory.path());
    assert!(expected >= 8);
    let mut looks = HashSet::new();
    for (size, dark) in [
        ((360, 800), false),
        ((360, 800), true),
        ((1440, 900), false),
        ((1440, 900), true),
        ((768, 1000), false),
    ] {
        let found = measured(directory.path(), size, dark);
        assert_eq!(found["wrong"], Value::Array(Vec::new()), "{size:?}");
        assert_eq!(found["charts"], expected);
        assert!(found["text_px_min"].as_f64() >= Some(10.8), "{size:?}: {found}");
        assert_eq!((&found["page_px"], &found["frame_px"]), (&size.0.into(), &size.0.into()));
        assert!(size != (1440, 900) || found["summary_end_px"].as_f64() <= Some(900.0), "{found}");
        looks.insert((dark, found["ground"].to_string(), found["curve"].to_string()));
    }
    let grounds: HashSet<_> = looks.iter().map(|(_, ground, _)| ground).collect();
    let curves: HashSet<_> = looks.iter().map(|(.., curve)| curve).collect();
    assert_eq!((looks.len(), grounds.len(), curves.len()), (2, 2, 2), "{looks:?}");
}

#[test]
fn what_cannot_be_shown_or_written_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let refused = |arguments: &[&str]| {
        let ran = run(&[&["report"], arguments].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""));
        ran.stderr
    };
    let none = directory.path().join("none");
    assert!(refused(&[text(&none)]).contains(&format!("{}: ", none.display())));
    assert!(refused(&[text(directory.path())]).contains("there is no result.json in "));
    let result = directory.path().join("result.json");
    fs::write(&result, "{").unwrap();
    assert!(refused(&[text(directory.path())]).contains(&format!("{}: not a result", result.display())));
    fs::remove_file(&result).unwrap();
    let set = ["--set", "seconds=20", "--set", "warm-up=1"];
    let arguments = [&["run", "semantics/mpl", "--quick", "--out", text(directory.path())], &set[..]];
    assert_eq!(run(&arguments.concat()).code, Some(0));
    let page = none.join("report.html");
    let unwritable = refused(&[text(directory.path()), "--out", text(&page)]);
    assert!(unwritable.contains(&format!("{}: ", page.display())), "{unwritable}");
    let page = directory.path().join("page.html");
    let ran = run(&["report", text(directory.path()), "--out", text(&page)]);
    assert_eq!((ran.code, ran.stdout.trim()), (Some(0), text(&page)));
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.contains("--set seconds=20 --set warm-up=1</code>"), "the command that runs it again");
}
