//! The settings that hold, as statements ask for them.

use std::{sync::Arc, time::Duration};

use gnomon_parser::StringRules;

use super::{
    Settings,
    definition::{DEFINITIONS, Id, NO_EFFECT, find},
};
use crate::types::{
    datetime::{DateStyle, IntervalStyle, Zone},
    encoding::Encoding,
};

/// The statements that are run by plans that serve for other literals too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlanCacheMode {
    /// Short ones, from their second run on.
    Auto,
    /// All.
    Generic,
    /// None.
    Custom,
}

/// Returns the bytes of memory in which the entries of new indexes and the rows of rewritten tables are sorted.
pub(crate) fn maintenance_bytes(settings: &Settings) -> usize {
    let kilobytes = settings.current.texts[Id::maintenance_work_mem as usize].parse().unwrap_or(0_usize);
    kilobytes.saturating_mul(1 << 10)
}

impl Settings {
    /// The schemas that names are looked for in, `$user` replaced.
    pub(crate) fn search_path(&self) -> &Arc<[String]> {
        &self.current.search_path
    }

    /// The user.
    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Returns how long the session may be idle, within a transaction or outside of one.
    pub(crate) fn idle_timeout(&self, in_transaction: bool) -> Option<Duration> {
        let id = match in_transaction {
            true => Id::idle_in_transaction_session_timeout,
            false => Id::idle_session_timeout,
        };
        match self.current.texts[id as usize].parse() {
            Ok(0) | Err(_) => None,
            Ok(millis) => Some(Duration::from_millis(millis)),
        }
    }

    /// Returns why a value that was just given to a setting has no effect; none if it has one, or is the default.
    pub(crate) fn lack_of_effect(&self, name: &str) -> Option<(&'static str, &'static str)> {
        let id = find(name)?;
        let definition = &DEFINITIONS[id];
        let reason = definition.description.strip_prefix(NO_EFFECT)?;
        (*self.current.texts[id] != *definition.default).then_some((definition.name, reason))
    }

    /// Returns what backslashes in strings mean.
    pub(crate) fn string_rules(&self) -> StringRules {
        let is = |id: Id, value: &str| &*self.current.texts[id as usize] == value;
        StringRules {
            is_standard: is(Id::standard_conforming_strings, "on"),
            warns: is(Id::escape_string_warning, "on"),
            has_escaped_quotes: match &*self.current.texts[Id::backslash_quote as usize] {
                "off" => false,
                "safe_encoding" => !self.encoding().is_client_only(),
                _ => true,
            },
        }
    }

    /// True if the body of a new procedure is checked.
    pub(crate) fn check_function_bodies(&self) -> bool {
        &*self.current.texts[Id::check_function_bodies as usize] == "on"
    }

    /// The encoding of the client's texts.
    pub(crate) fn encoding(&self) -> Encoding {
        self.current.encoding
    }

    /// True if updates that commute share locks.
    pub(crate) fn semantic_locks(&self) -> bool {
        &*self.current.texts[Id::gnomon_semantic_locks as usize] == "on"
    }

    /// Returns how many commits the snapshots of new transactions may have missed of what they read.
    pub(crate) fn missed_max(&self) -> Option<u32> {
        self.current.texts[Id::gnomon_k as usize].parse().ok()
    }

    /// True if statements are counted by their form: queries and changes of rows, or other commands.
    pub(crate) fn tracks_statements(&self, are_planned: bool) -> bool {
        &*self.current.texts[Id::pg_stat_statements_track as usize] != "none"
            && (are_planned || &*self.current.texts[Id::pg_stat_statements_track_utility as usize] == "on")
    }

    /// Returns which statements are run by plans that serve for other literals too.
    pub(crate) fn plan_cache_mode(&self) -> PlanCacheMode {
        match &*self.current.texts[Id::plan_cache_mode as usize] {
            "force_generic_plan" => PlanCacheMode::Generic,
            "force_custom_plan" => PlanCacheMode::Custom,
            _ => PlanCacheMode::Auto,
        }
    }

    /// Returns the number of entries of lists of statistics.
    pub(crate) fn statistics_target(&self) -> usize {
        self.current.texts[Id::default_statistics_target as usize].parse().unwrap_or(100)
    }

    /// Returns how often a member of a cluster runs a statement again.
    pub(crate) fn retries(&self) -> u32 {
        self.current.texts[Id::gnomon_retries as usize].parse().unwrap_or(0)
    }

    /// Returns how old snapshots may be.
    pub(crate) fn age_max(&self) -> Option<Duration> {
        self.current.texts[Id::gnomon_max_staleness as usize].parse().ok().map(Duration::from_millis)
    }

    /// Returns how long a statement may take.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.current.statement_timeout
    }

    /// Returns how long it may wait for one lock.
    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        self.current.lock_timeout
    }

    /// Returns how long it waits for a lock before it looks for a deadlock.
    pub(crate) fn deadlock_timeout(&self) -> Duration {
        self.current.deadlock_timeout
    }

    /// True if a commit is durable before it is acknowledged.
    pub(crate) fn synchronous_commit(&self) -> bool {
        &*self.current.texts[Id::synchronous_commit as usize] != "off"
    }

    /// The isolation level of new transactions.
    pub(crate) fn default_isolation(&self) -> Arc<str> {
        self.current.texts[Id::default_transaction_isolation as usize].clone()
    }

    /// True if new transactions are read-only.
    pub(crate) fn default_read_only(&self) -> bool {
        &*self.current.texts[Id::default_transaction_read_only as usize] == "on"
    }

    /// The isolation level of the present transaction.
    pub(crate) fn isolation(&self) -> &str {
        &self.current.texts[Id::transaction_isolation as usize]
    }

    /// True if the present transaction is read-only.
    pub(crate) fn read_only(&self) -> bool {
        &*self.current.texts[Id::transaction_read_only as usize] == "on"
    }

    /// True if new transactions are deferrable.
    pub(crate) fn default_deferrable(&self) -> bool {
        &*self.current.texts[Id::default_transaction_deferrable as usize] == "on"
    }

    /// True if the present transaction is deferrable.
    pub(crate) fn deferrable(&self) -> bool {
        &*self.current.texts[Id::transaction_deferrable as usize] == "on"
    }

    /// The name that the client goes by.
    pub(crate) fn application_name(&self) -> Arc<str> {
        self.current.texts[Id::application_name as usize].clone()
    }

    /// TimeZone.
    pub(crate) fn zone(&self) -> &Zone {
        &self.current.zone
    }

    /// DateStyle.
    pub(crate) fn date_style(&self) -> DateStyle {
        self.current.date_style
    }

    /// The text form of intervals.
    pub(crate) fn interval_style(&self) -> IntervalStyle {
        self.current.interval_style
    }

    /// True if the text of bytea is escaped, not hexadecimal.
    pub(crate) fn bytea_escape(&self) -> bool {
        self.current.bytea_escape
    }

    /// Returns how many digits floating-point numbers show.
    pub(crate) fn extra_float_digits(&self) -> i32 {
        self.current.extra_float_digits
    }

    /// True if client_min_messages lets notices through, or, with `warning`, warnings.
    pub(crate) fn sends_notices(&self, warning: bool) -> bool {
        match &*self.current.texts[Id::client_min_messages as usize] {
            "error" | "fatal" | "panic" => false,
            "warning" => warning,
            _ => true,
        }
    }
}
