//! What queueing theory says of networks that it can solve: to check a simulation by.

/// The mean time that a customer spends in an M/M/1 queue, waiting and served, at an arrival rate below the service rate
/// (L. Kleinrock, "Queueing Systems", vol. 1, 1975, section 3.2).
pub fn mm1_response(arrivals: f64, services: f64) -> f64 {
    1.0 / (services - arrivals)
}

/// A closed network by exact mean value analysis: so many customers circulate, each thinks for `think` and then needs
/// `demands[i]` of the station `i`, which has one server. Returns the throughput, in customers by unit of the times.
/// (M. Reiser, S. Lavenberg, "Mean-value analysis of closed multichain queuing networks", JACM 27(2), 1980.)
pub fn closed_throughput(customers: usize, think: f64, demands: &[f64]) -> f64 {
    let mut queued = vec![0.0; demands.len()];
    let mut throughput = 0.0;
    for count in 1..=customers {
        let responses: Vec<f64> =
            demands.iter().zip(&queued).map(|(demand, queued)| demand * (1.0 + queued)).collect();
        throughput = count as f64 / (think + responses.iter().sum::<f64>());
        queued = responses.iter().map(|response| throughput * response).collect();
    }
    throughput
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_values_are_those_of_small_networks() {
        // One customer never waits.
        assert!((closed_throughput(1, 2.0, &[1.0, 3.0]) - 1.0 / 6.0).abs() < 1e-12);
        // Two customers on two equal stations: each finds the other there half the time.
        assert!((closed_throughput(2, 0.0, &[1.0, 1.0]) - 2.0 / 3.0).abs() < 1e-12);
        // Many saturate the slowest.
        assert!((closed_throughput(200, 1.0, &[0.5, 2.0]) - 0.5).abs() < 1e-6);
        assert_eq!(mm1_response(0.5, 1.0), 2.0);
    }
}
