//! Means with confidence intervals, from independent replications.

use serde::Serialize;

/// A mean, and how far the true one is from it at most, with a probability of 95 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the confidence interval's width; infinite with one replication.
    pub half_width: f64,
    /// How many replications it is of.
    pub replications: usize,
}

impl Estimate {
    /// Of what replications found, one at least.
    pub fn of(found: &[f64]) -> Estimate {
        let count = found.len();
        let mean = found.iter().sum::<f64>() / count as f64;
        let squares: f64 = found.iter().map(|one| (one - mean).powi(2)).sum();
        let half_width = match count {
            0 | 1 => f64::INFINITY,
            _ => t_quantile(count - 1) * (squares / (count - 1) as f64 / count as f64).sqrt(),
        };
        Estimate { mean, half_width, replications: count }
    }

    /// The half width in parts of the mean.
    pub fn relative(&self) -> f64 {
        if self.half_width == 0.0 { 0.0 } else { self.half_width / self.mean.abs() }
    }
}

/// The 97.5 % quantile of Student's t distribution.
fn t_quantile(degrees_of_freedom: usize) -> f64 {
    const FIRST: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
        2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048,
        2.045, 2.042,
    ];
    match FIRST.get(degrees_of_freedom.wrapping_sub(1)) {
        Some(quantile) => *quantile,
        // The first two terms of the expansion around the normal distribution: off by less than 0.001 from here on.
        None => {
            let (z, n) = (1.959_964_f64, degrees_of_freedom as f64);
            z + (z.powi(3) + z) / (4.0 * n) + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_those_of_the_t_distribution() {
        let estimate = Estimate::of(&[9.0, 10.0, 11.0, 10.0]);
        assert_eq!((estimate.mean, estimate.replications), (10.0, 4));
        // The standard error is sqrt(2 / 3 / 4).
        assert!((estimate.half_width - 3.182 * (1.0_f64 / 6.0).sqrt()).abs() < 1e-9, "{estimate:?}");
        assert!((estimate.relative() - estimate.half_width / 10.0).abs() < 1e-12);
        assert!(Estimate::of(&[1.0]).half_width.is_infinite());
        assert_eq!(Estimate::of(&[0.0, 0.0]).relative(), 0.0);
        assert!((t_quantile(30) - 2.0423).abs() < 1e-3 && (t_quantile(31) - 2.0395).abs() < 1e-3);
        assert!((t_quantile(100) - 1.9840).abs() < 1e-3);
    }
}
