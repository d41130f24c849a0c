//! Where the numbers of an axis are in a figure, and which of them are named.

use super::Scale;

/// An axis between two places.
pub struct Spread {
    scale: Scale,
    low: f64,
    high: f64,
    /// Numbers to be named, from the lowest on.
    pub ticks: Vec<f64>,
    /// Where the lowest number is.
    pub start: f64,
    /// Where the highest is.
    pub end: f64,
}

/// Ticks of an axis are at most so many.
const TICKS_MAX: usize = 7;

impl Spread {
    /// An axis that has all of some numbers.
    pub fn of(scale: Scale, numbers: impl Iterator<Item = f64>, start: f64, end: f64) -> Spread {
        let (low, high) =
            numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), n| (low.min(n), high.max(n)));
        let (low, high, ticks) = match scale {
            Scale::Linear => linear(low.min(0.0), high),
            Scale::Logarithmic(base) if low <= high => logarithmic(base, low, high),
            // Nothing is drawn, whatever the base.
            Scale::Logarithmic(base) => logarithmic(base.max(2), 1.0, 1.0),
        };
        Spread { scale, low, high, ticks, start, end }
    }

    /// Where a number is.
    pub fn place(&self, number: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (number - self.low) / (self.high - self.low),
            Scale::Logarithmic(_) => (number / self.low).ln() / (self.high / self.low).ln(),
        };
        self.start + share * (self.end - self.start)
    }
}

/// Ends and ticks; the ends are ticks.
fn linear(low: f64, high: f64) -> (f64, f64, Vec<f64>) {
    let high = if high > low { high } else { low + 1.0 };
    let step = step(high - low);
    let (first, last) = ((low / step).floor(), (high / step).ceil());
    let ticks = (0..=(last - first) as usize).map(|number| (first + number as f64) * step);
    (first * step, last * step, ticks.collect())
}

/// Ends, which are powers of the base, and ticks: powers, and if they are few and of ten, also twice and five times
/// these.
fn logarithmic(base: u32, low: f64, high: f64) -> (f64, f64, Vec<f64>) {
    let power = |exponent: f64| f64::from(base).powf(exponent);
    // So that a power is itself, whatever its logarithm's last digits are.
    let low = (low.log(f64::from(base)) + 1e-9).floor();
    let high = (high.log(f64::from(base)) - 1e-9).ceil().max(low + 1.0);
    let powers = (high - low) as usize;
    let apart = powers.div_ceil(TICKS_MAX - 1);
    let parts: &[f64] = if base == 10 && powers <= 2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let ticks = (0..=powers)
        .step_by(apart)
        .flat_map(|number| parts.iter().map(move |part| part * power(low + number as f64)));
    let end = power(high);
    (power(low), end, ticks.filter(|tick| *tick <= end * 1.000_001).collect())
}

/// The distance of ticks: 1, 2 or 5 times a power of ten, so that there are 2 to 5 of them.
fn step(range: f64) -> f64 {
    let power = 10f64.powf(range.log10().floor());
    let steps = [0.2, 0.5, 1.0].map(|part| part * power);
    steps.into_iter().find(|step| range / step <= 5.000_001).unwrap_or(2.0 * power)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few_and_have_all_numbers_between_them() {
        for (low, high) in [(0.0, 0.003), (1.0, 1.0), (-0.1, 2.4), (2.0, 64.0), (0.0, 99.0), (5.0, 123_456.0)]
        {
            for scale in [Scale::Linear, Scale::Logarithmic(2), Scale::Logarithmic(10)] {
                if scale != Scale::Linear && low <= 0.0 {
                    continue;
                }
                let spread = Spread::of(scale, [low, high].into_iter(), 10.0, 110.0);
                let ticks = &spread.ticks;
                assert!((2..=TICKS_MAX).contains(&ticks.len()), "{low} {high} {scale:?}: {ticks:?}");
                assert!(ticks[0] <= low && spread.place(low) >= 10.0 && spread.place(high) <= 110.001);
                let last = ticks.last().unwrap();
                // On a logarithmic axis ticks may be powers of the base apart, and end before it does.
                assert!(scale != Scale::Linear || *last >= high * 0.999_999, "{low} {high}: {ticks:?}");
            }
        }
        let ticks = |scale, numbers: [f64; 2]| Spread::of(scale, numbers.into_iter(), 0.0, 1.0).ticks;
        assert_eq!(ticks(Scale::Logarithmic(2), [1.0, 64.0]), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]);
        let round = |ticks: Vec<f64>| ticks.iter().map(|tick| tick.round()).collect::<Vec<_>>();
        assert_eq!(round(ticks(Scale::Logarithmic(10), [20.0, 1e6])), [1e1, 1e2, 1e3, 1e4, 1e5, 1e6]);
        let between = round(ticks(Scale::Logarithmic(10), [20.0, 1000.0]));
        assert_eq!(between, [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
        assert_eq!(round(ticks(Scale::Logarithmic(2), [1.0, 1024.0])), [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0]);
        assert_eq!(ticks(Scale::Linear, [3.0, 61.0]), [0.0, 20.0, 40.0, 60.0, 80.0]);
    }
}
