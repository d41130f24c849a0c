//! Options of the memory allocator, mimalloc 3.

#![allow(unsafe_code, reason = "mimalloc has no safe function that sets an option")]

/// The option `purge_delay` of mimalloc 3, in milliseconds, which the crate does not name.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Makes the allocator give freed memory back to the system at once, not a second later or when more is freed: a server
/// has no more memory then than its limit counts.
pub(crate) fn give_freed_memory_back() {
    // SAFETY: the option is one of the table's, and every number is a delay. Options may be set at any time.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_memory_is_given_back_at_once() {
        // SAFETY: the option is one of the table's.
        let delay_ms = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        assert_eq!(delay_ms(), 1000, "mimalloc's default tells that the option has this number");
        give_freed_memory_back();
        assert_eq!(delay_ms(), 0);
    }
}
