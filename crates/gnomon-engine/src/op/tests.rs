use super::*;
use crate::env::Rng;

/// Numbers near the bounds of both widths, small ones mostly.
fn number_near(rng: &mut Rng, width: usize) -> i128 {
    let small = i128::from(rng.below(9) as u32) - 4;
    let (min, max) = if width == 8 { (i64::MIN.into(), i64::MAX.into()) } else { (i128::MIN, i128::MAX) };
    match rng.below(6) {
        0 => max - small.abs(),
        1 => min + small.abs(),
        _ => small,
    }
}

fn number_trial(rng: &mut Rng) -> Trial {
    let width = if rng.chance(1, 2) { 8 } else { 16 };
    let value = number_near(rng, width).to_le_bytes()[..width].to_vec();
    let mut call = || match rng.below(3) as usize {
        0 => {
            let delta = number_near(rng, width);
            let (min, max) = (number_near(rng, 16), number_near(rng, 16));
            (0, number::encode(&[delta, min, max]))
        }
        other => (other, number::encode(&[number_near(rng, width)])),
    };
    Trial { value, calls: [call(), call()] }
}

fn set_trial(rng: &mut Rng) -> Trial {
    let mut value = Vec::new();
    for element in [&b""[..], b"a", b"bb"].into_iter().filter(|_| rng.chance(1, 2)) {
        value.extend((element.len() as u32).to_le_bytes());
        value.extend_from_slice(element);
    }
    let mut call = || (rng.below(2) as usize, [&b""[..], b"a", b"bb", b"c"][rng.below(4) as usize].to_vec());
    Trial { value, calls: [call(), call()] }
}

#[test]
fn what_is_built_in_does_what_it_declares() {
    check_family(&number::family(), 20_000, 1, number_trial).unwrap();
    check_family(&set::family(), 5_000, 2, set_trial).unwrap();
    check_family(&bytes::family(), 1_000, 3, |rng| {
        let mut bytes = || vec![rng.below(3) as u8; rng.below(4) as usize];
        Trial { value: bytes(), calls: [(0, bytes()), (0, bytes())] }
    })
    .unwrap();
}

/// The same operations under a table that promises too much.
fn promising(family: &Family, commutes: Commutes) -> Family {
    let row = vec![commutes; family.operations().len()];
    let table: Vec<&[Commutes]> = row.iter().map(|_| &row[..]).collect();
    Family::new("promising", family.operations().to_vec(), &table).unwrap()
}

#[test]
fn a_table_that_promises_too_much_is_found_out() {
    let found = check_family(&promising(&set::family(), Commutes::Always), 1000, 1, set_trial).unwrap_err();
    assert!(found.what.contains("inverse") || found.what.contains("do not commute"), "{found}");
    let found = check_family(&promising(&bytes::family(), Commutes::Always), 1000, 1, |rng| {
        let mut bytes = || vec![rng.below(3) as u8];
        Trial { value: bytes(), calls: [(0, bytes()), (0, bytes())] }
    });
    assert!(found.unwrap_err().what.contains("do not commute"));
    let numbers = promising(&number::family(), Commutes::Always);
    assert!(check_family(&numbers, 20_000, 1, number_trial).unwrap_err().what.contains("do not commute"));
}

struct Careless;

impl Operation for Careless {
    fn name(&self) -> &'static str {
        "careless"
    }

    fn claims(&self, _: &[u8], _: &[u8]) -> Result<Vec<Claim>> {
        Ok(Vec::new())
    }

    /// Adds without having claimed that there is room for it.
    fn apply(&self, args: &[u8], value: &[u8]) -> Result<Vec<u8>> {
        let sum = value[0].checked_add(args[0]);
        sum.map(|sum| vec![sum]).ok_or_else(|| Error::Operation("it overflows".into()))
    }

    fn inverse(&self, _: &[u8], _: &[u8]) -> Result<Option<(&'static str, Vec<u8>)>> {
        Ok(None)
    }

    fn length(&self, _: &[u8]) -> Length {
        Length::Same
    }
}

#[test]
fn an_operation_that_may_fail_after_it_was_granted_is_found_out() {
    let operations: Vec<Arc<dyn Operation>> = vec![Arc::new(Careless)];
    let family = Family::new("careless", operations, &[&[Commutes::Always]]).unwrap();
    let found = check_family(&family, 1000, 1, |rng| {
        let mut byte = || vec![rng.below(256) as u8];
        Trial { value: byte(), calls: [(0, byte()), (0, byte())] }
    });
    assert!(found.unwrap_err().what.contains("was granted and fails"));
}

#[test]
fn families_are_checked_when_they_are_made_and_registered() {
    use Commutes::{Always, Never};
    let operations = || -> Vec<Arc<dyn Operation>> { vec![Arc::new(Careless)] };
    assert!(Family::new("a", operations(), &[]).is_err());
    let two = || -> Vec<Arc<dyn Operation>> { vec![Arc::new(Careless), Arc::new(Careless)] };
    assert!(Family::new("a", two(), &[&[Always, Never], &[Never, Always]]).is_err());
    let family = Family::new("a", operations(), &[&[Always]]).unwrap();
    assert!(Registry::new(&[family.clone(), family.clone()]).is_err());
    let registry = Registry::new(&[family]).unwrap();
    assert!(is_shared(registry.get("a", "careless").unwrap().mode));
    assert!(matches!(registry.get("a", "other"), Err(Error::NoSuchOperation { .. })));
    let mode = |family, name| registry.get(family, name).unwrap().mode;
    let modes = registry.key_modes();
    assert!(modes.admits(mode("number", "add"), mode("number", "add")));
    assert!(!modes.admits(mode("number", "add"), mode("number", "minimum")));
    assert!(!modes.admits(mode("number", "add"), mode("a", "careless")));
    assert_eq!(mode("set", "insert"), mode("set", "remove"), "they get on with the same");
}
