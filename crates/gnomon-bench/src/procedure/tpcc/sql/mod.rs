//! TPC-C on a server that speaks the PostgreSQL protocol: the five transactions as the statements that an application
//! would write, so that the same run against Gnomon and against PostgreSQL.
//!
//! The nine tables (`load.rs`) have the columns of clause 1.3, the primary keys, and two indexes: of customers by their
//! names, of orders by their customers. They are loaded by COPY with the rows that a database in this process has for the
//! same seed. The transactions (`transactions.rs`) are prepared statements between BEGIN and COMMIT. The conditions are
//! checked by queries (`check.rs`), and that what was committed is there.
//!
//! Promises: a client is some terminals with a connection of their own, and a closed loop; a transaction that the server
//! asks to run again (SQLSTATE 40001 or 40P01) runs again, with the same parameters. What a terminal shows is read, and
//! thrown away.
//!
//! Tables have names with [`TABLE_PREFIX`](crate::store::server::TABLE_PREFIX). They are dropped and made anew at the beginning,
//! and stay at the end.

mod check;
mod load;
mod money;
mod transactions;

use std::time::Duration;

use gnomon_engine::{
    env::{Clock, Rng, SystemClock},
    sync::{Arc, atomic::AtomicBool},
};
use gnomon_program::Progress;
use serde::Serialize;
use transactions::Session;

use super::{Kind, Mix, Terminals, Tpcc, report_progress, terminals};
use crate::{
    drive::{self, Load, Measured, drive_kinds},
    isolation::Isolation,
    procedure::Calls,
    report::{KindReport, Report},
    store::{
        Committed, Result,
        server::{Server, connect, name_of},
    },
};

/// How the workload runs on a server.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// Clients, each with a connection.
    pub clients: usize,
    /// How long to run before measuring, in seconds.
    pub warm_up_seconds: f64,
    /// How long to measure, in seconds.
    pub measured_seconds: f64,
    /// How transactions are isolated. A stock level is read committed anyway, which clause 2.8.2.3 allows.
    pub isolation: Isolation,
    /// The server.
    #[serde(flatten)]
    pub server: Server,
}

/// The settings of [`Tpcc`] that there are on a server: partitions are none of them.
#[derive(Serialize)]
struct AllSettings<'a> {
    warehouses: u16,
    customers_per_district: u16,
    items: u32,
    mix: Mix,
    #[serde(flatten)]
    common: &'a Settings,
}

/// Loads the tables, runs the terminals, and checks the conditions. `cancel` ends it early, which then fails.
///
/// # Errors
/// Those of the server, and that it was canceled.
pub fn bench(
    tpcc: &Tpcc,
    settings: &Settings,
    seed: u64,
    progress: &mut Progress,
    cancel: &Arc<AtomicBool>,
) -> Result<Report> {
    let server = &settings.server;
    let mut client = connect(server)?;
    let (name, _) = name_of(&mut client)?;
    load::load(&mut client, tpcc, seed, &mut report_progress(progress, cancel))?;
    let load = Load {
        clients: settings.clients,
        warm_up: Duration::from_secs_f64(settings.warm_up_seconds),
        measured: Duration::from_secs_f64(settings.measured_seconds),
        seed,
        cancel: cancel.clone(),
    };
    let sessions = (0..settings.clients).map(|_| Ok(Session::new(connect(server)?, settings.isolation)));
    let sessions = sessions.collect::<Result<Vec<_>>>()?;
    let mut clients = terminals(tpcc, settings.clients, seed).into_iter().zip(sessions).map(Client::new);
    let kinds = drive_kinds(Kind::ALL.len(), &load, |_| {
        clients.next().expect("there are as many terminals and sessions as clients")
    })?;
    let committed: Vec<u64> = kinds.iter().map(|measured| measured.committed_in_all).collect();
    let invariant = check::check(&mut client, tpcc, &committed)?;
    let of_kinds = kinds.iter().zip(Tpcc::KINDS).map(|(measured, (name, _))| KindReport::new(name, measured));
    let all_settings = AllSettings {
        warehouses: tpcc.warehouses,
        customers_per_district: tpcc.customers_per_district,
        items: tpcc.items,
        mix: tpcc.mix,
        common: settings,
    };
    let all = Measured::of_all(&kinds);
    Ok(Report::new(Tpcc::NAME, &name, &all_settings, seed, &all, invariant).with_kinds(of_kinds.collect()))
}

/// Terminals at a server.
struct Client {
    terminals: Terminals,
    session: Session,
    clock: SystemClock,
    chosen: (Kind, Vec<u8>),
}

impl Client {
    fn new((terminals, session): (Terminals, Session)) -> Client {
        Client { terminals, session, clock: SystemClock::new(), chosen: (Kind::NewOrder, Vec::new()) }
    }
}

impl drive::Client for Client {
    /// Terminals have random numbers of their own.
    fn choose(&mut self, _: &mut Rng) {
        self.chosen = self.terminals.next(self.clock.unix_time().as_micros() as i64);
    }

    fn kind(&self) -> usize {
        self.chosen.0 as usize
    }

    fn attempt(&mut self) -> Result<Committed> {
        let (kind, params) = &self.chosen;
        self.session.run(*kind, params)?;
        Ok(Committed::Durable)
    }
}
