//! The benchmark once, on a database of its own: what `gnomon bench objects` runs.

use std::path::Path;

use serde::Serialize;

use super::{Enough, Loaded, Objects, measure, object_options};
use crate::{
    drive::{self, Load},
    recovery::{self, Recovery},
    report::Report,
    store::Result,
    workspace::directory_of,
};

/// The benchmark's own settings, and how it runs.
#[derive(Serialize)]
struct AllSettings<'a> {
    #[serde(flatten)]
    own: &'a Objects,
    #[serde(serialize_with = "recovery::serialize")]
    recovery: Recovery,
    clients: usize,
    warm_up_seconds: f64,
    measured_seconds: f64,
    dir: Option<&'a Path>,
}

/// Makes the database in a directory, or in a temporary one that is removed afterwards, runs the clients, and checks
/// the invariant, once more after closing and opening the database.
///
/// # Errors
/// Settings that do not go together, those of the database, and that the run was canceled.
pub fn bench(settings: &Objects, recovery: Recovery, load: &Load, dir: Option<&Path>) -> Result<Report> {
    let (path, _temporary) = directory_of(dir)?;
    let options = object_options(settings);
    let loaded = Loaded::make(recovery, settings, options.clone(), path, load.seed, &load.cancel)?;
    let place = loaded.open(settings, options.clone())?;
    let (measured, tally) = measure(&place, settings, load, Enough::TIME)?;
    let mut invariant = tally.invariant(&place, settings)?;
    place.close()?;
    if invariant.holds {
        let place = loaded.open(settings, options)?;
        invariant = tally.invariant(&place, settings)?;
        invariant.detail += if invariant.holds { ", also after reopening" } else { " after reopening" };
        place.close()?;
    }
    let clients_ms = load.clients as f64 * measured.seconds * 1e3;
    let measured = drive::Measured {
        seconds: measured.seconds,
        committed: measured.committed,
        aborted: measured.restarted,
        refused: 0,
        busy: 0,
        committed_in_all: tally.transactions(),
        lock_wait_share: Some(measured.wait_ms() * measured.committed as f64 / clients_ms),
        latency_us: measured.response_us,
    };
    let settings = AllSettings {
        own: settings,
        recovery,
        clients: load.clients,
        warm_up_seconds: load.warm_up.as_secs_f64(),
        measured_seconds: load.measured.as_secs_f64(),
        dir,
    };
    Ok(Report::new("objects", "gnomon", &settings, load.seed, &measured, invariant))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::TWO_LEVEL_DEFERRED;
    use gnomon_engine::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_short_run_reports_and_is_not_made_over_another() {
        let load = Load {
            clients: 4,
            warm_up: Duration::from_millis(20),
            measured: Duration::from_millis(200),
            seed: 7,
            cancel: Arc::default(),
        };
        for recovery in [TWO_LEVEL_DEFERRED, Recovery::Shadow] {
            let dir = tempfile::tempdir().unwrap();
            let run = |dir| bench(&Objects::small(), recovery, &load, dir);
            let report = run(Some(dir.path())).unwrap();
            assert!(report.invariant.holds && report.committed > 0, "{report}");
            assert!(report.invariant.detail.ends_with("stored, also after reopening"), "{report}");
            assert_eq!((&report.settings["own"], &report.settings["clients"]), (&3.into(), &4.into()));
            let error = run(Some(dir.path())).unwrap_err().to_string();
            assert!(error.ends_with("holds a database already: give another directory"), "{error}");
            assert!(run(None).is_ok());
        }
    }
}
