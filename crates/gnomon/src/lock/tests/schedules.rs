//! The manager under seeded schedules.
