//! An operation of one's own: seats of a hall, which many book at the same time.
//!
//! The value is the hall's capacity (2 bytes, little-endian), then a bit for each seat, set if it is booked. Each seat
//! is a quantity: 1 while it is free, 0 when it is booked. To book takes one of it, which cannot go below 0; to cancel
//! adds one, which cannot go above 1. So bookings of different seats do not wait for each other, and of two for the same
//! seat one succeeds, and the other one fails at once.
//!
//! `cargo run -p gnomon --example seats` books a hall out; `cargo test -p gnomon --example seats` tries whether the
//! operations commute.

use gnomon::{
    Applied, Builder, Error,
    op::{Call, Claim, Commutes, Family, Length, Operation},
};
use std::{sync::Arc, thread};

const FAMILY: &str = "seats";

/// Returns a hall in which no seat is booked.
fn hall(capacity: u16) -> Vec<u8> {
    let mut value = capacity.to_le_bytes().to_vec();
    value.resize(2 + usize::from(capacity).div_ceil(8), 0);
    value
}

fn book(seat: u16) -> Call {
    Call { family: FAMILY, operation: "book", args: seat.to_le_bytes().into() }
}

fn cancel(seat: u16) -> Call {
    Call { family: FAMILY, operation: "cancel", args: seat.to_le_bytes().into() }
}

fn family() -> Family {
    use Commutes::Always;
    // Granted together, they are about different seats.
    Family::new(
        FAMILY,
        vec![Arc::new(Change::Book), Arc::new(Change::Cancel)],
        &[&[Always, Always], &[Always, Always]],
    )
    .expect("the table has a row for each")
}

enum Change {
    Book,
    Cancel,
}

/// The byte and the bit of a seat.
fn place_of(args: &[u8], value: &[u8]) -> Result<(u16, usize, u8), Error> {
    let unsuited = |what: &str| Error::Operation(what.into());
    let seat = args.try_into().map(u16::from_le_bytes).map_err(|_| unsuited("a seat has two bytes"))?;
    let capacity = value.first_chunk().map(|bytes| u16::from_le_bytes(*bytes));
    if capacity.is_none_or(|capacity| seat >= capacity || value.len() != hall(capacity).len()) {
        return Err(unsuited("the hall has no such seat"));
    }
    Ok((seat, 2 + usize::from(seat / 8), 1 << (seat % 8)))
}

impl Operation for Change {
    fn name(&self) -> &'static str {
        match self {
            Change::Book => "book",
            Change::Cancel => "cancel",
        }
    }

    fn claims(&self, args: &[u8], value: &[u8]) -> Result<Vec<Claim>, Error> {
        let (seat, byte, bit) = place_of(args, value)?;
        let free = i128::from(value[byte] & bit == 0);
        let delta = if matches!(self, Change::Book) { -1 } else { 1 };
        Ok(vec![Claim { quantity: seat.into(), value: free, delta, min: 0, max: 1 }])
    }

    fn apply(&self, args: &[u8], value: &[u8]) -> Result<Vec<u8>, Error> {
        let (_, byte, bit) = place_of(args, value)?;
        let mut value = value.to_vec();
        value[byte] ^= bit;
        Ok(value)
    }

    fn inverse(&self, args: &[u8], _: &[u8]) -> Result<Option<(&'static str, Vec<u8>)>, Error> {
        let other = if matches!(self, Change::Book) { Change::Cancel } else { Change::Book };
        Ok(Some((other.name(), args.into())))
    }

    fn length(&self, _: &[u8]) -> Length {
        Length::Same
    }
}

fn main() -> Result<(), Error> {
    const SEATS: u16 = 100;
    let db = Builder::in_memory().operations(family()).open()?;
    let halls = db.tree("halls")?;
    db.transact(|txn| txn.put(halls, "hall", hall(SEATS)))?;
    // Every client wants every seat; each is sold once.
    let sold: usize = thread::scope(|scope| {
        let book_some = || -> Result<usize, Error> {
            let mut sold = 0;
            for seat in 0..SEATS {
                let mut txn = db.begin()?;
                if txn.apply(halls, "hall", &book(seat))? == Applied::Done {
                    txn.commit()?;
                    sold += 1;
                }
            }
            Ok(sold)
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(book_some)).collect();
        clients
            .into_iter()
            .map(|client| client.join().expect("it does not panic"))
            .sum::<Result<usize, Error>>()
    })?;
    let mut txn = db.begin()?;
    assert_eq!(txn.apply(halls, "hall", &book(7))?, Applied::Refused(0));
    assert_eq!(txn.apply(halls, "hall", &cancel(7))?, Applied::Done);
    println!("{sold} of {SEATS} seats were sold, each once");
    Ok(())
}

#[cfg(test)]
mod tests {
    use gnomon::op::{Trial, check_family};

    use super::*;

    #[test]
    fn runs() {
        main().unwrap();
    }

    #[test]
    fn bookings_commute() {
        check_family(&family(), 20_000, 1, |rng| {
            let mut value = hall(10);
            value[2] = rng.below(256) as u8;
            let mut call = || (rng.below(2) as usize, (rng.below(11) as u16).to_le_bytes().to_vec());
            Trial { value, calls: [call(), call()] }
        })
        .unwrap();
    }
}
