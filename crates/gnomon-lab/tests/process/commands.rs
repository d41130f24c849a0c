//! Experiments that are listed, run and refused.

use std::os::unix::process::ExitStatusExt;

use crate::harness::{gnomon_lab, run, text};

#[test]
fn an_experiment_prints_one_json_object_and_an_unknown_one_names_those_there_are() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let set = ["--set", "levels=2", "--dir", text(directory.path()), "--out", text(&out)];
    let arguments =
        [&["run", "shadow/tpcb", "--quick", "--seconds", "0.05", "--seed", "3", "--json"], &set[..]];
    let ran = run(&arguments.concat());
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let report: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((&report["seed"], &report["settings"]["seconds"]), (&3.into(), &"0.05".into()));
    assert_eq!(std::fs::read_to_string(out.join("result.json")).unwrap(), ran.stdout);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1, "its databases are removed");
    let ran = run(&["run", "shadow/nonsense"]);
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("'shadow/nonsense'") && ran.stderr.contains("there are shadow/tpcb"),
        "{ran:?}"
    );
    let out = directory.path().join("none");
    let ran = run(&["run", "shadow/tpcb", "--quick", "--set", "levels=x", "--out", text(&out)]);
    assert!(ran.code == Some(1) && !out.exists(), "nothing is left of a run that failed: {ran:?}");
    assert!(run(&["list"]).stdout.starts_with("shadow/tpcb: "));
}

#[test]
fn arguments_that_make_no_sense_are_refused_and_a_closed_pipe_ends_the_program_silently() {
    for arguments in [&["nonsense"][..], &["run"], &["run", "shadow/tpcb", "--set", "levels"]] {
        assert_eq!(run(arguments).code, Some(2), "{arguments:?}");
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = gnomon_lab(&["list"]).stdout(writer).output().unwrap();
    assert_eq!((String::from_utf8_lossy(&output.stderr).as_ref(), output.status.signal()), ("", Some(13)));
}
