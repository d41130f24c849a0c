//! Prefetching: the processor fetches memory before it is needed.
//!
//! A load that misses the caches takes as long as hundreds of instructions. Loads that depend on each other, as those
//! of a search do, and loads with a lock between them come one after the other; those that are asked for here come at
//! once, whatever is done meanwhile.

#![allow(unsafe_code)]

/// Bytes that a processor fetches at once: a cache line.
const LINE_BYTES: usize = 64;

/// Asks for the memory of a value. A hint: it changes nothing, and does nothing on processors that are not x86-64.
#[inline]
pub fn prefetch<T: ?Sized>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        let mut offset = 0;
        while offset < size_of_val(value) {
            // Safety: the instruction reads nothing that the program can see and faults at no address; the offset is
            // within the value.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.add(offset)) };
            offset += LINE_BYTES;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, LINE_BYTES);
}
