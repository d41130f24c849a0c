//! Numbers chosen with a skew: the number of rank r is chosen as often as 1 / r^s (Zipf's law with exponent s).
//!
//! Promises: which number has which rank depends on how many there are, on nothing else, so that runs meet the same
//! hot rows; and neighbours in rank are no neighbours in number, so that hot rows do not share a page by themselves.

use clap::Args;
use gnomon_engine::env::Rng;
use gnomon_program::argument::parse_exponent;
use serde::Serialize;

/// Spreads the ranks over the numbers.
const SPREAD_SEED: u64 = 0x5eed_0f21_bf00;

/// How uneven a choice is.
#[derive(Clone, Copy, Debug, Args, Serialize)]
pub struct Skew {
    /// The exponent of Zipf's law: how uneven the choice is, from 0 to 5.
    ///
    /// What has rank r is chosen as often as 1 / r^S. With 2, 61 of 100 choices are the first one; with 0 all are
    /// equally likely. Which has which rank is always the same.
    #[arg(long, value_name = "S", default_value = "2", value_parser = parse_exponent)]
    pub zipf: f64,
}

/// Chooses numbers below a count.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// The number of each rank.
    numbers: Vec<u64>,
    /// For each rank, how probable it is that none behind it is chosen.
    cumulative: Vec<f64>,
}

impl Zipf {
    /// Chooses numbers below `count` with an exponent; with zero, all of them equally often.
    pub fn new(count: u64, exponent: f64) -> Zipf {
        let mut numbers: Vec<u64> = (0..count).collect();
        Rng::from_seed(SPREAD_SEED).shuffle(&mut numbers);
        let mut sum = 0.0;
        let mut cumulative: Vec<f64> = (1..=count)
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        cumulative.iter_mut().for_each(|part| *part /= sum);
        Zipf { numbers, cumulative }
    }

    /// Chooses a number.
    pub fn choose(&self, rng: &mut Rng) -> u64 {
        let at = rng.unit();
        let rank = self.cumulative.partition_point(|part| *part <= at);
        self.numbers[rank.min(self.numbers.len() - 1)]
    }

    /// Chooses two numbers that differ; there must be two.
    pub fn choose_two(&self, rng: &mut Rng) -> (u64, u64) {
        let first = self.choose(rng);
        loop {
            let second = self.choose(rng);
            if second != first {
                return (first, second);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_chosen_as_often_as_their_ranks_say() {
        let zipf = Zipf::new(1000, 2.0);
        let mut rng = Rng::from_seed(1);
        let mut counts = vec![0u32; 1000];
        (0..100_000).for_each(|_| counts[zipf.choose(&mut rng) as usize] += 1);
        // The sum of 1 / r^2 is about 1.644.
        let hottest = counts[zipf.numbers[0] as usize];
        let second = counts[zipf.numbers[1] as usize];
        assert!((60_000..61_700).contains(&hottest), "{hottest}");
        assert!((14_700..15_800).contains(&second), "{second}");
        let uniform = Zipf::new(10, 0.0);
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|_| counts[uniform.choose(&mut rng) as usize] += 1);
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn ranks_are_spread_in_the_same_way_each_time_and_pairs_differ() {
        let zipf = Zipf::new(1000, 2.0);
        assert_eq!(zipf.numbers, Zipf::new(1000, 1.0).numbers);
        assert!(zipf.numbers[0].abs_diff(zipf.numbers[1]) > 1, "{:?}", &zipf.numbers[..2]);
        let mut sorted = zipf.numbers.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..1000));
        let pair = Zipf::new(2, 5.0);
        let mut rng = Rng::from_seed(1);
        assert!((0..1000).map(|_| pair.choose_two(&mut rng)).all(|(first, second)| first != second));
    }
}
