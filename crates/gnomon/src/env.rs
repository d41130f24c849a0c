//! What the engine takes from its surroundings beside the disk: time and randomness, injected so that a run can
//! be repeated from its seed.
