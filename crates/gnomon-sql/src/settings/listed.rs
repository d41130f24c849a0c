//! The settings as `pg_settings` lists them.

use std::{collections::HashSet, sync::LazyLock};

use super::{
    Settings,
    definition::{DEFINITIONS, Kind},
    value::real_text,
};
use crate::catalog::system::Setting;

/// True if PostgreSQL has a setting of this name.
pub(super) fn is_of_postgres(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        include_str!("../catalog/system/data/setting_names.txt").lines().map(str::to_lowercase).collect()
    });
    NAMES.contains(&name.to_lowercase())
}

/// The origin of a setting's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    /// The program that serves the session.
    CommandLine,
    /// ALTER DATABASE, or ALTER ROLE of all.
    Global,
    /// ALTER ROLE of the user.
    User,
    /// The client, when it connected.
    Client,
    /// The transaction that runs.
    Override,
    /// SET.
    Session,
}

impl Source {
    /// Its name in `pg_settings`.
    fn name(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::CommandLine => "command line",
            Source::Global => "global",
            Source::User => "user",
            Source::Client => "client",
            Source::Override => "override",
            Source::Session => "session",
        }
    }
}

impl Settings {
    /// The settings that are listed, as `pg_settings` shows them.
    pub(crate) fn describe(&self) -> impl Iterator<Item = Setting> + '_ {
        let values = self.current.texts.iter().zip(&self.current.sources).zip(&self.initial.texts);
        DEFINITIONS.iter().zip(values).filter(|(definition, _)| definition.is_listed()).map(
            |(definition, ((value, source), reset))| {
                let (kind, unit, min, max, words) = match definition.kind {
                    Kind::Bool => ("bool", None, None, None, None),
                    Kind::Int { min, max, unit } => {
                        ("integer", unit.name(), Some(min.to_string()), Some(max.to_string()), None)
                    }
                    Kind::Real { min, max, unit } => {
                        ("real", unit.name(), Some(real_text(min)), Some(real_text(max)), None)
                    }
                    Kind::Word(words) => (
                        "enum",
                        None,
                        None,
                        None,
                        Some(words.iter().map(|word| (*word).to_owned()).collect()),
                    ),
                    Kind::Text
                    | Kind::Name
                    | Kind::Names
                    | Kind::Encoding
                    | Kind::DateStyle
                    | Kind::TimeZone
                    | Kind::Role
                    | Kind::Fixed => ("string", None, None, None, None),
                };
                Setting {
                    name: definition.name,
                    value: value.to_string(),
                    unit,
                    description: definition.description,
                    kind,
                    fixed: matches!(definition.kind, Kind::Fixed),
                    min,
                    max,
                    words,
                    default: definition.default.to_owned(),
                    reset: reset.to_string(),
                    source: source.name(),
                }
            },
        )
    }
}
