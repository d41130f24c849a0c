//! Simulations of what queueing theory can solve, beside it; and what happens in which order.

use std::fmt::Write as _;

use gnomon_engine::env::Rng;

use super::{
    analytic::{closed_throughput, mm1_response},
    locks::{LockTable, Mode, NotGranted},
    *,
};

fn exponential(rng: &mut Rng, mean: f64) -> Duration {
    Duration::from_secs_f64(-mean * (1.0 - rng.unit()).ln())
}

/// The example of the module's head.
#[test]
fn a_station_serves_one_process_after_another() {
    let simulation = Simulation::default();
    let disk = Rc::new(Station::new(&simulation, 1));
    for _ in 0..2 {
        let disk = disk.clone();
        simulation.start(async move {
            loop {
                disk.serve(Duration::from_millis(30)).await;
            }
        });
    }
    simulation.run_until(Duration::from_secs(3));
    assert_eq!(disk.served(), 100);
}

#[test]
fn an_open_queue_has_the_response_time_of_theory() {
    let (arrivals, services) = (0.7, 1.0);
    let simulation = Simulation::default();
    let station = Rc::new(Station::new(&simulation, 1));
    let (spent, count) = (Rc::new(Cell::new(0.0)), Rc::new(Cell::new(0_u32)));
    let world = simulation.clone();
    simulation.start({
        let (station, spent, count) = (station.clone(), spent.clone(), count.clone());
        async move {
            let mut rng = Rng::from_seed(1);
            loop {
                world.pass(exponential(&mut rng, 1.0 / arrivals)).await;
                let service = exponential(&mut rng, 1.0 / services);
                let (simulation, station) = (world.clone(), station.clone());
                let (spent, count) = (spent.clone(), count.clone());
                world.start(async move {
                    let came = simulation.now();
                    station.serve(service).await;
                    spent.set(spent.get() + (simulation.now() - came).as_secs_f64());
                    count.set(count.get() + 1);
                });
            }
        }
    });
    simulation.run_until(Duration::from_secs(2_000_000));
    let (found, theory) = (spent.get() / f64::from(count.get()), mm1_response(arrivals, services));
    assert!((found / theory - 1.0).abs() < 0.01, "{found} instead of {theory}");
    simulation.end();
}

#[test]
fn a_closed_network_has_the_throughput_of_mean_value_analysis() {
    let (customers, think, demands) = (12, 3.0, [0.4, 0.7]);
    let simulation = Simulation::default();
    let stations = Rc::new(demands.map(|_| Station::new(&simulation, 1)));
    for customer in 0..customers {
        let (world, stations) = (simulation.clone(), stations.clone());
        simulation.start(async move {
            let mut rng = Rng::from_seed(customer);
            loop {
                world.pass(exponential(&mut rng, think)).await;
                for (station, demand) in stations.iter().zip(demands) {
                    station.serve(exponential(&mut rng, demand)).await;
                }
            }
        });
    }
    let (warm_up, seconds) = (1000, 200_000);
    simulation.run_until(Duration::from_secs(warm_up));
    let before = stations[1].served();
    simulation.run_until(Duration::from_secs(warm_up + seconds));
    let found = (stations[1].served() - before) as f64 / seconds as f64;
    let theory = closed_throughput(customers as usize, think, &demands);
    assert!((found / theory - 1.0).abs() < 0.01, "{found} instead of {theory}");
    simulation.end();
}

/// Three processes at one lock and one station, as a trace.
#[test]
fn what_happens_happens_in_this_order() {
    let simulation = Simulation::default();
    let (locks, station) = (Rc::new(LockTable::new(&simulation)), Rc::new(Station::new(&simulation, 2)));
    let trace = Rc::new(RefCell::new(String::new()));
    for (owner, mode, until) in
        [(1, Mode::Shared, 99), (2, Mode::Exclusive, 3), (3, Mode::Shared, 99), (4, Mode::Exclusive, 99)]
    {
        let (world, locks, station, trace) =
            (simulation.clone(), locks.clone(), station.clone(), trace.clone());
        let say = move |world: &Simulation, what: &str| {
            writeln!(trace.borrow_mut(), "{} {owner} {what}", world.now().as_secs()).unwrap();
        };
        simulation.start(async move {
            world.pass(Duration::from_secs(owner)).await;
            say(&world, "asks");
            match locks.acquire(owner, 7, mode, Duration::from_secs(until)).await {
                Ok(()) => {
                    say(&world, "has it");
                    station.serve(Duration::from_secs(5)).await;
                    if owner == 1 {
                        let alone = locks.acquire(owner, 7, Mode::Exclusive, Duration::from_secs(99)).await;
                        assert_eq!(alone, Ok(()));
                        say(&world, "has it alone");
                    }
                    locks.release(owner, 7);
                    say(&world, "is done");
                }
                Err(NotGranted) => say(&world, "waits no longer"),
            }
        });
    }
    simulation.run_until(Duration::from_secs(4));
    assert_eq!(station.service(), Duration::from_secs(3 + 1), "not what is still to come");
    simulation.run_until(Duration::from_secs(100));
    let expected = "\
1 1 asks
1 1 has it
2 2 asks
3 3 asks
3 2 waits no longer
3 3 has it
4 4 asks
8 3 is done
8 1 has it alone
8 1 is done
8 4 has it
13 4 is done
";
    assert_eq!(*trace.borrow(), expected);
    assert_eq!(locks.waited(), Duration::from_secs(1 + 2 + 4));
    assert_eq!((station.served(), station.service()), (3, Duration::from_secs(15)));
}

/// Two who want what the other has, and a third who waits beside them.
#[test]
fn a_request_that_would_complete_a_deadlock_is_not_granted() {
    let simulation = Simulation::default();
    let locks = Rc::new(LockTable::detecting(&simulation));
    let trace = Rc::new(RefCell::new(String::new()));
    for (owner, first, second) in [(1, 1, 2), (2, 2, 3), (3, 3, 1)] {
        let (world, locks, trace) = (simulation.clone(), locks.clone(), trace.clone());
        simulation.start(async move {
            assert_eq!(locks.acquire(owner, first, Mode::Exclusive, Duration::MAX).await, Ok(()));
            world.pass(Duration::from_secs(owner)).await;
            let ended = locks.acquire(owner, second, Mode::Shared, Duration::MAX).await;
            writeln!(trace.borrow_mut(), "{} {owner} {ended:?}", world.now().as_secs()).unwrap();
            world.pass(Duration::from_secs(10)).await;
            locks.release(owner, first);
            locks.release(owner, second);
        });
    }
    simulation.run_until(Duration::from_secs(100));
    assert_eq!(*trace.borrow(), "3 3 Err(NotGranted)\n13 2 Ok(())\n23 1 Ok(())\n");
}

/// Two who share a lock and want it alone.
#[test]
fn conversions_are_a_deadlock() {
    let simulation = Simulation::default();
    let locks = Rc::new(LockTable::detecting(&simulation));
    let trace = Rc::new(RefCell::new(String::new()));
    for owner in [1, 2] {
        let (world, locks, trace) = (simulation.clone(), locks.clone(), trace.clone());
        simulation.start(async move {
            assert_eq!(locks.acquire(owner, 1, Mode::Shared, Duration::MAX).await, Ok(()));
            world.pass(Duration::from_secs(owner)).await;
            let ended = locks.acquire(owner, 1, Mode::Exclusive, Duration::MAX).await;
            writeln!(trace.borrow_mut(), "{} {owner} {ended:?}", world.now().as_secs()).unwrap();
            world.pass(Duration::from_secs(10)).await;
            locks.release(owner, 1);
        });
    }
    simulation.run_until(Duration::from_secs(100));
    assert_eq!(*trace.borrow(), "2 2 Err(NotGranted)\n12 1 Ok(())\n");
}

#[test]
fn what_is_interrupted_goes_on_with_all_that_was_to_come() {
    let simulation = Simulation::default();
    let ended = Rc::new(Cell::new(0));
    for second in 1..=10_000 {
        let (world, ended) = (simulation.clone(), ended.clone());
        simulation.start(async move {
            world.pass(Duration::from_secs(second)).await;
            ended.set(ended.get() + 1);
        });
    }
    let mut interruptions = 0;
    while ended.get() < 10_000 {
        simulation.run_while(Duration::from_secs(10_000), || false);
        assert_eq!(simulation.now(), Duration::from_secs(ended.get()));
        interruptions += 1;
    }
    assert!(interruptions > 3, "{interruptions}");
}
