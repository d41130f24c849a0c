//! The settings of a session: SET, SHOW, RESET.
//!
//! Each has a kind that checks and normalises its values. SET within a transaction is undone when it is rolled back,
//! SET LOCAL when it ends; both by going back to values kept from before (they are shared until they change).
//! Settings that PostgreSQL has and that mean nothing here are accepted, so that clients that set them work; a NOTICE
//! tells so of values other than the default. `docs/settings.md` lists all with their effect. A name
//! with a dot in it is a setting of the client's own: it exists from when it is first set, and is empty where it is
//! not.
//!
//! All ways of setting something (SET, `set_config`, BEGIN's modes) end in [`Settings::set`], which keeps what the
//! transaction allows; the session then follows its settings.

mod definition;
mod listed;
mod read;
mod value;
mod written;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use self::{
    definition::{CHARACTERISTICS, DEFINITIONS, Id, Kind, ROLE, find},
    listed::is_of_postgres,
    value::{fixed, normalise, search_path, with_unit},
};
use crate::{
    Result, SqlError, SqlState,
    memory::{Account, Held},
    types::{
        datetime::{DateStyle, IntervalStyle, Zone},
        encoding::Encoding,
    },
};

pub use self::value::bool_word;
pub(crate) use self::{
    listed::Source,
    read::{PlanCacheMode, maintenance_bytes},
    written::{setting_name, setting_texts},
};

/// The values that hold, with those that statements need in a ready form.
#[derive(Clone, Debug)]
struct Values {
    texts: Vec<Arc<str>>,
    sources: Vec<Source>,
    /// The client's own, by lower-case name.
    custom: BTreeMap<Arc<str>, Arc<str>>,
    /// The memory of long values and of the client's own, by name.
    memory: BTreeMap<Arc<str>, Arc<Held>>,
    search_path: Arc<[String]>,
    zone: Zone,
    date_style: DateStyle,
    interval_style: IntervalStyle,
    extra_float_digits: i32,
    bytea_escape: bool,
    encoding: Encoding,
    statement_timeout: Option<Duration>,
    lock_timeout: Option<Duration>,
    deadlock_timeout: Duration,
}

impl Values {
    /// Keeps the memory of a value, in place of that of the value before.
    fn count(&mut self, name: Arc<str>, held: Option<Arc<Held>>) {
        match held {
            Some(held) => self.memory.insert(name, held),
            None => self.memory.remove(&name),
        };
    }
}

/// Bytes of memory that a setting of the client's own takes beside its name and value.
const CUSTOM_BYTES: usize = 256;
/// Values of other settings that are no longer are not counted.
const SHORT_VALUE_BYTES: usize = 256;
/// Number of times that the text of a value is kept, in one form or another.
const VALUE_COPIES: usize = 3;

/// The settings of a session.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    user: Arc<str>,
    /// The account of the memory of values, once there is one.
    account: Option<Arc<Account>>,
    /// True if texts on their way to the client can be encoded otherwise than as UTF-8.
    converts: bool,
    /// Values that RESET goes back to: the defaults, and those that the client gave when it connected.
    initial: Arc<Values>,
    /// Values that hold beyond the transaction.
    session: Arc<Values>,
    /// Values that hold now.
    current: Arc<Values>,
    /// Values that held when the transaction began, if it changed any since.
    before: Option<Arc<Values>>,
}

/// Values that held at a savepoint.
pub(crate) struct Saved {
    session: Arc<Values>,
    current: Arc<Values>,
}

/// How long a SET lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Beyond the transaction, if that commits.
    Session,
    /// To the end of the transaction.
    Local,
}

/// How far the transaction is in which something is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// There is none: nothing is ever taken back.
    None,
    /// It has not read or written anything.
    Begun,
    /// Its characteristics stand.
    Queried,
    /// The same, and it has a savepoint.
    Nested,
}

/// Settings that results of statements can depend on, beside the search path. The log keeps their places: more can
/// follow.
const OF_RESULTS: [usize; 5] = [
    Id::TimeZone as usize,
    Id::DateStyle as usize,
    Id::bytea_output as usize,
    Id::extra_float_digits as usize,
    Id::IntervalStyle as usize,
];

/// The name of a setting of the client's own in lower case; an error if it cannot be one.
fn custom_name(name: &str) -> Result<Arc<str>> {
    if !name.contains('.') {
        return Err(unknown(name));
    }
    let is_word = |word: &str| {
        word.chars()
            .enumerate()
            .all(|(i, c)| c.is_alphabetic() || c == '_' || (i > 0 && (c.is_ascii_digit() || c == '$')))
            && !word.is_empty()
    };
    let lower = name.to_lowercase();
    let detail = if !name.split('.').all(is_word) {
        "Custom parameter names must be two or more simple identifiers separated by dots."
    } else if lower.starts_with("gnomon.") {
        // A name that is misspelt must not pass for a setting of the client's own.
        "\"gnomon\" is a reserved prefix."
    } else {
        return Ok(lower.into());
    };
    let message = format!("invalid configuration parameter name \"{name}\"");
    Err(SqlError::new(SqlState::INVALID_NAME, message).detail(detail))
}

fn unknown(name: &str) -> SqlError {
    if is_of_postgres(name) {
        return SqlError::unsupported(format!("parameter \"{name}\""));
    }
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""))
}

impl Settings {
    /// The settings of a new session.
    pub(crate) fn new(user: &str) -> Settings {
        let mut texts: Vec<Arc<str>> = DEFINITIONS.iter().map(|d| d.default.into()).collect();
        texts[Id::session_authorization as usize] = user.into();
        let mut sources = vec![Source::Default; texts.len()];
        CHARACTERISTICS.iter().for_each(|&id| sources[id] = Source::Override);
        let values = Values {
            search_path: search_path(&texts[Id::search_path as usize], user),
            texts,
            sources,
            custom: BTreeMap::new(),
            memory: BTreeMap::new(),
            zone: Zone::UTC,
            date_style: DateStyle::ISO,
            interval_style: IntervalStyle::Postgres,
            extra_float_digits: 1,
            bytea_escape: false,
            encoding: Encoding::UTF8,
            statement_timeout: None,
            lock_timeout: None,
            deadlock_timeout: Duration::ZERO,
        };
        let values = Arc::new(values);
        Settings {
            account: None,
            user: user.into(),
            converts: false,
            initial: values.clone(),
            session: values.clone(),
            current: values,
            before: None,
        }
    }

    /// Sets what holds before the session's first statement: RESET goes back to it.
    pub(crate) fn set_initial(&mut self, name: &str, value: &str, source: Source) -> Result<()> {
        self.set_text(name, Some(value), Scope::Session, Progress::None)?;
        if let Some(id) = find(name) {
            Arc::make_mut(&mut self.session).sources[id] = source;
        }
        (self.initial, self.current) = (self.session.clone(), self.session.clone());
        Ok(())
    }

    /// Allows client encodings other than UTF8: the client gets bytes.
    pub(crate) fn allow_conversion(&mut self) {
        self.converts = true;
    }

    /// Gives a value to a setting that clients cannot set. To be called before anything else is set.
    pub(crate) fn set_fixed(&mut self, name: &str, value: &str) -> Result<()> {
        let id = find(name).ok_or_else(|| unknown(name))?;
        let initial = Arc::make_mut(&mut self.initial);
        initial.texts[id] = value.into();
        initial.sources[id] = Source::CommandLine;
        (self.session, self.current) = (self.initial.clone(), self.initial.clone());
        Ok(())
    }

    /// The value of a setting, and its name as it is defined.
    pub(crate) fn show(&self, name: &str) -> Result<(String, String)> {
        if let Some(id) = find(name) {
            return Ok((DEFINITIONS[id].name.to_owned(), self.display(id)));
        }
        let custom = &self.current.custom;
        match custom.get_key_value(name.to_lowercase().as_str()) {
            Some((name, value)) => Ok((name.to_string(), value.to_string())),
            None => Err(unknown(name)),
        }
    }

    /// The settings that are listed: name, value, description.
    pub(crate) fn show_all(&self) -> impl Iterator<Item = (&'static str, String, &'static str)> + '_ {
        let listed = DEFINITIONS.iter().enumerate().filter(|(_, definition)| definition.is_listed());
        listed.map(|(id, d)| (d.name, self.display(id), d.description))
    }

    /// The settings that results of statements can depend on, by number, of those that differ from their defaults.
    pub(crate) fn of_results(&self) -> impl Iterator<Item = (u8, &str)> {
        (0..)
            .zip(OF_RESULTS)
            .map(|(number, id)| (number, id, &*self.current.texts[id]))
            .filter_map(|(number, id, text)| (*text != *DEFINITIONS[id].default).then_some((number, text)))
    }

    /// Sets one of those, by its number.
    ///
    /// # Errors
    /// 22023 if there is none, or it does not take the value.
    pub(crate) fn set_of_result(&mut self, number: u8, text: &str) -> Result<()> {
        let id = OF_RESULTS.get(usize::from(number)).ok_or_else(|| unknown("of this number"))?;
        self.assign(DEFINITIONS[*id].name, &[text.to_owned()], Scope::Session, Progress::None)
    }

    /// The settings that clients are told of when they connect.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (&'static str, String)> + '_ {
        DEFINITIONS.iter().enumerate().filter(|(_, d)| d.reported).map(|(id, d)| (d.name, self.display(id)))
    }

    /// The settings that clients are told of and that differ from those of `before`.
    pub(crate) fn changes_since(&self, before: &Settings) -> Vec<(&'static str, String)> {
        if Arc::ptr_eq(&self.current, &before.current) {
            return Vec::new();
        }
        let differs = |id: usize| {
            self.current.texts.get(id).map(|t| &**t) != before.current.texts.get(id).map(|t| &**t)
        };
        DEFINITIONS
            .iter()
            .enumerate()
            .filter(|(id, d)| d.reported && differs(*id))
            .map(|(id, d)| (d.name, self.display(id)))
            .collect()
    }

    fn display(&self, id: usize) -> String {
        let text = &*self.current.texts[id];
        match DEFINITIONS[id].kind {
            Kind::Int { unit, .. } | Kind::Real { unit, .. } => with_unit(text, unit),
            _ => text.to_owned(),
        }
    }

    /// As [`Settings::set`], of one text, which may be a list.
    pub(crate) fn set_text(
        &mut self,
        name: &str,
        text: Option<&str>,
        scope: Scope,
        progress: Progress,
    ) -> Result<()> {
        match (text, find(name)) {
            // It stays as it is written.
            (Some(text), Some(id)) if matches!(DEFINITIONS[id].kind, Kind::Names) => {
                self.store(id, text.into(), Source::Session, scope, progress)
            }
            _ => {
                let value = text.map(str::to_owned);
                self.set(name, value.as_ref().map(std::slice::from_ref), scope, progress)
            }
        }
    }

    /// Sets a setting, or with `None` back to what it was when the session began. One that is a list of names takes
    /// several values, a name each.
    ///
    /// # Errors
    /// 42704 if there is none of this name, 22023 if it does not take the value, 25001 if the transaction is too far
    /// on for it.
    pub(crate) fn set(
        &mut self,
        name: &str,
        values: Option<&[String]>,
        scope: Scope,
        progress: Progress,
    ) -> Result<()> {
        match (values, find(name)) {
            (Some(values), _) => self.assign(name, values, scope, progress),
            (None, None) => self.assign_custom(name, None, scope, progress),
            (None, Some(id)) => {
                if matches!(DEFINITIONS[id].kind, Kind::Fixed) {
                    return Err(fixed(DEFINITIONS[id].name));
                }
                let (text, source) = (self.initial.texts[id].clone(), self.initial.sources[id]);
                self.store(id, text, source, scope, progress)
            }
        }
    }

    /// RESET ALL.
    pub(crate) fn reset_all(&mut self) {
        self.keep_before();
        let keep = |from: &Values, ids: &[usize]| {
            let mut values = self.initial.clone();
            if ids.iter().any(|&id| values.texts[id] != from.texts[id]) {
                let values = Arc::make_mut(&mut values);
                for &id in ids {
                    (values.texts[id], values.sources[id]) = (from.texts[id].clone(), from.sources[id]);
                }
            }
            values
        };
        let session = keep(&self.session, &[ROLE]);
        self.current = keep(&self.current, &[CHARACTERISTICS.as_slice(), &[ROLE]].concat());
        self.session = session;
    }

    /// Counts the values that are set from now on as memory of `account`.
    pub(crate) fn count_in(&mut self, account: Arc<Account>) {
        self.account = Some(account);
    }

    fn hold(&self, bytes: usize) -> Result<Option<Arc<Held>>> {
        self.account.as_ref().map(|account| account.hold(bytes).map(Arc::new)).transpose()
    }

    fn keep_before(&mut self) {
        if self.before.is_none() {
            self.before = Some(self.session.clone());
        }
    }

    fn assign(&mut self, name: &str, values: &[String], scope: Scope, progress: Progress) -> Result<()> {
        let id = find(name);
        let takes_many = id.is_some_and(|id| matches!(DEFINITIONS[id].kind, Kind::Names | Kind::DateStyle));
        if !takes_many && values.len() > 1 {
            return Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("SET {name} takes only one argument"),
            ));
        }
        match id {
            Some(id) => {
                let styles = [self.current.date_style, self.initial.date_style];
                let text = normalise(&DEFINITIONS[id], values, styles, &self.user)?;
                if id == Id::client_encoding as usize {
                    self.check_encoding(&text)?;
                }
                self.store(id, text.into(), Source::Session, scope, progress)
            }
            None => self.assign_custom(name, values.first().map(String::as_str), scope, progress),
        }
    }

    fn assign_custom(
        &mut self,
        name: &str,
        value: Option<&str>,
        scope: Scope,
        progress: Progress,
    ) -> Result<()> {
        let name = custom_name(name)?;
        let held = self.hold(name.len() + value.map_or(0, str::len) + CUSTOM_BYTES)?;
        // From now on it exists, whatever becomes of this value.
        let all = [&mut self.initial, &mut self.session, &mut self.current];
        for values in all.into_iter().chain(&mut self.before) {
            if !values.custom.contains_key(&name) {
                Arc::make_mut(values).custom.insert(name.clone(), "".into());
            }
        }
        if progress != Progress::None {
            self.keep_before();
        }
        let value: Arc<str> = match value {
            Some(value) => value.into(),
            None => self.initial.custom.get(&name).cloned().unwrap_or_default(),
        };
        let change = |values: &mut Arc<Values>| {
            let values = Arc::make_mut(values);
            values.custom.insert(name.clone(), value.clone());
            values.count(name.clone(), held.clone());
        };
        change(&mut self.current);
        if scope == Scope::Session {
            change(&mut self.session);
        }
        Ok(())
    }

    /// Refuses an encoding that texts cannot be brought to here.
    fn check_encoding(&self, name: &str) -> Result<()> {
        match Encoding::named(name) {
            Some(encoding) if encoding.is_plain() || self.converts => Ok(()),
            _ => Err(SqlError::unsupported(format!(
                "the client encoding {name} in the process of the database"
            ))),
        }
    }

    fn store(
        &mut self,
        id: usize,
        text: Arc<str>,
        source: Source,
        scope: Scope,
        progress: Progress,
    ) -> Result<()> {
        if matches!(progress, Progress::Queried | Progress::Nested) {
            self.refuse_too_late(id, &text, progress)?;
        }
        let held = if text.len() > SHORT_VALUE_BYTES { self.hold(VALUE_COPIES * text.len())? } else { None };
        if progress != Progress::None {
            self.keep_before();
        }
        let change = |values: &mut Arc<Values>| {
            let values = Arc::make_mut(values);
            values.texts[id] = text.clone();
            values.sources[id] = source;
            values.count(DEFINITIONS[id].name.into(), held.clone());
            let millis = || match text.parse::<u64>() {
                Ok(0) | Err(_) => None,
                Ok(millis) => Some(Duration::from_millis(millis)),
            };
            if id == Id::search_path as usize {
                values.search_path = search_path(&text, &self.user);
            } else if id == Id::statement_timeout as usize {
                values.statement_timeout = millis();
            } else if id == Id::lock_timeout as usize {
                values.lock_timeout = millis();
            } else if id == Id::deadlock_timeout as usize {
                values.deadlock_timeout = millis().unwrap_or_default();
            } else if id == Id::DateStyle as usize {
                values.date_style = DateStyle::named(&text);
            } else if id == Id::IntervalStyle as usize {
                values.interval_style = IntervalStyle::named(&text);
            } else if id == Id::extra_float_digits as usize {
                values.extra_float_digits = text.parse().unwrap_or(1);
            } else if id == Id::bytea_output as usize {
                values.bytea_escape = &*text == "escape";
            } else if id == Id::client_encoding as usize {
                values.encoding = Encoding::named(&text).unwrap_or(Encoding::UTF8);
            } else if id == Id::TimeZone as usize {
                values.zone = Zone::parse(&text).unwrap_or(Zone::UTC);
            }
        };
        change(&mut self.current);
        if scope == Scope::Session && !CHARACTERISTICS.contains(&id) {
            change(&mut self.session);
        }
        Ok(())
    }

    /// Refuses to change characteristics of a transaction that has read or written something; only that it will write
    /// no more can be promised at any time.
    fn refuse_too_late(&self, id: usize, text: &str, progress: Progress) -> Result<()> {
        let now = &*self.current.texts[id];
        let is_nested = progress == Progress::Nested;
        let what = if id == Id::transaction_isolation as usize && now != text {
            "SET TRANSACTION ISOLATION LEVEL must be called before any query"
        } else if id == Id::transaction_read_only as usize && now == "on" && text == "off" {
            match is_nested {
                true => "cannot set transaction read-write mode inside a read-only transaction",
                false => "transaction read-write mode must be set before any query",
            }
        } else if id == Id::transaction_deferrable as usize && is_nested {
            "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction"
        } else if id == Id::transaction_deferrable as usize {
            "SET TRANSACTION [NOT] DEFERRABLE must be called before any query"
        } else if id == Id::gnomon_k as usize && now != text {
            "gnomon.k must be set before any query of a transaction"
        } else {
            return Ok(());
        };
        Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, what))
    }

    /// The transaction has ended.
    pub(crate) fn end_transaction(&mut self, committed: bool) {
        if let Some(before) = self.before.take()
            && !committed
        {
            self.session = before;
        }
        if !Arc::ptr_eq(&self.current, &self.session) {
            self.current = self.session.clone();
        }
    }

    /// Returns the values that hold now, for a savepoint.
    pub(crate) fn save(&self) -> Saved {
        Saved { session: self.session.clone(), current: self.current.clone() }
    }

    /// Goes back to what held at a savepoint of the transaction in progress.
    pub(crate) fn restore(&mut self, saved: &Saved) {
        self.keep_before();
        (self.session, self.current) = (saved.session.clone(), saved.current.clone());
    }

    /// Lets the transaction write again, if it could at a savepoint that is released.
    pub(crate) fn restore_read_only(&mut self, saved: &Saved) {
        let id = Id::transaction_read_only as usize;
        if self.current.texts[id] != saved.current.texts[id] {
            Arc::make_mut(&mut self.current).texts[id] = saved.current.texts[id].clone();
        }
    }

    /// Puts a schema in front of those that names are looked for in.
    pub(crate) fn look_first_in(&mut self, schema: &str) {
        let path = &self.current.search_path;
        let path = std::iter::once(schema.to_owned()).chain(path.iter().cloned()).collect();
        Arc::make_mut(&mut self.current).search_path = path;
    }

    /// Records what the present transaction is.
    pub(crate) fn note_transaction(&mut self, isolation: &str, read_only: bool, deferrable: bool) {
        let noted = (self.isolation(), self.read_only(), self.deferrable());
        if noted != (isolation, read_only, deferrable) {
            let values = Arc::make_mut(&mut self.current);
            values.texts[Id::transaction_isolation as usize] = isolation.into();
            let on_off = |on: bool| if on { "on" } else { "off" };
            values.texts[Id::transaction_read_only as usize] = on_off(read_only).into();
            values.texts[Id::transaction_deferrable as usize] = on_off(deferrable).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(settings: &mut Settings, name: &str, value: &str) -> Result<()> {
        settings.set_text(name, Some(value), Scope::Session, Progress::None)
    }

    #[test]
    fn definitions_are_in_order() {
        assert!(
            DEFINITIONS.windows(2).all(|w| w[0].name.to_lowercase() < w[1].name.to_lowercase()),
            "SHOW ALL prints them in this order"
        );
    }

    #[test]
    fn units_are_understood_and_printed() {
        let mut settings = Settings::new("u");
        for (given, shown) in
            [("1500", "1500ms"), ("2s", "2s"), ("1min", "1min"), ("0", "0"), ("0.5h", "30min")]
        {
            set(&mut settings, "statement_timeout", given).unwrap();
            assert_eq!(settings.show("STATEMENT_TIMEOUT").unwrap().1, shown);
        }
        assert_eq!(settings.statement_timeout(), Some(Duration::from_secs(1800)));
        assert!(set(&mut settings, "statement_timeout", "-1").is_err());
        assert!(set(&mut settings, "statement_timeout", "soon").is_err());
        set(&mut settings, "work_mem", "64MB").unwrap();
        assert_eq!(settings.show("work_mem").unwrap().1, "64MB");
    }

    #[test]
    fn rollback_takes_back_and_local_ends() {
        let mut settings = Settings::new("u");
        set(&mut settings, "application_name", "a").unwrap();
        settings.set("application_name", Some(&["b".into()]), Scope::Session, Progress::Begun).unwrap();
        settings.set("extra_float_digits", Some(&["3".into()]), Scope::Local, Progress::Begun).unwrap();
        assert_eq!(settings.show("extra_float_digits").unwrap().1, "3");
        settings.end_transaction(true);
        assert_eq!(settings.show("extra_float_digits").unwrap().1, "1");
        assert_eq!(settings.show("application_name").unwrap().1, "b");
        settings.set("application_name", Some(&["c".into()]), Scope::Session, Progress::Begun).unwrap();
        settings.end_transaction(false);
        assert_eq!(settings.show("application_name").unwrap().1, "b");
        settings.set("application_name", None, Scope::Session, Progress::None).unwrap();
        assert_eq!(settings.show("application_name").unwrap().1, "");
    }

    #[test]
    fn search_paths_are_lists_of_names() {
        let mut settings = Settings::new("Ada");
        assert_eq!(settings.search_path().to_vec(), ["Ada", "public"]);
        set(&mut settings, "search_path", "a, \"B c\"").unwrap();
        assert_eq!(settings.search_path().to_vec(), ["a", "B c"]);
        assert_eq!(settings.show("search_path").unwrap().1, "a, \"B c\"");
        let names = ["a, b".to_owned(), "c\"d".to_owned(), "$user".to_owned()];
        settings.set("search_path", Some(&names), Scope::Session, Progress::None).unwrap();
        assert_eq!(settings.search_path().to_vec(), ["a, b", "c\"d", "Ada"]);
        assert_eq!(settings.show("search_path").unwrap().1, r#""a, b", "c""d", "$user""#);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let mut settings = Settings::new("u");
        let state = |result: Result<()>| result.unwrap_err().state();
        assert_eq!(state(set(&mut settings, "nosuch", "1")), SqlState::UNDEFINED_OBJECT);
        assert_eq!(state(set(&mut settings, "server_version", "1")), SqlState("55P02"));
        assert_eq!(state(set(&mut settings, "client_encoding", "LATIN1")), SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(state(set(&mut settings, "client_encoding", "none")), SqlState::INVALID_PARAMETER_VALUE);
        set(&mut settings, "TimeZone", "+02:30").unwrap();
        set(&mut settings, "DateStyle", "ISO").unwrap();
        assert_eq!(state(set(&mut settings, "DateStyle", "Roman")), SqlState::INVALID_PARAMETER_VALUE);
        set(&mut settings, "TimeZone", "Europe/Berlin").unwrap();
        assert_eq!(settings.zone().name(), "Europe/Berlin");
        assert_eq!(state(set(&mut settings, "TimeZone", "Mars/Olympus")), SqlState::INVALID_PARAMETER_VALUE);
    }
}
