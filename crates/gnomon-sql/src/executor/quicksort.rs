//! The order of rows whose sort keys are equal: the one in which PostgreSQL leaves them.
//!
//! No rule of SQL gives these rows an order, but the values of window functions and the first rows of a result depend
//! on it, and applications (and their tests) have seen PostgreSQL's. It is that of the quicksort by Bentley and McIlroy
//! (Engineering a Sort Function, 1993), with a check for input that is sorted already, on the rows in the order in which
//! they arrive.

use std::cmp::Ordering;

/// A shorter slice is sorted by insertion.
const INSERTION_MAX: usize = 6;
/// A longer slice has the median of nine as its pivot.
const THREE_MAX: usize = 40;

/// Sorts a slice as PostgreSQL does.
pub(super) fn quicksort<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    let depth_max = 2 * (usize::BITS - items.len().leading_zeros());
    sort(items, &mut compare, depth_max);
}

/// Sorts a slice by at most so many bad pivots one within the other, and then in any order of what is equal: data can
/// be such that the quicksort takes quadratic time.
fn sort<T>(mut items: &mut [T], compare: &mut impl FnMut(&T, &T) -> Ordering, mut depth_max: u32) {
    loop {
        if items.len() <= INSERTION_MAX {
            return insertion_sort(items, compare);
        }
        if items.is_sorted_by(|a, b| compare(a, b).is_le()) {
            return;
        }
        if depth_max == 0 {
            return items.sort_unstable_by(compare);
        }
        depth_max -= 1;
        let (less, greater) = partition(items, compare);
        let not_greater = items.len() - greater;
        let (rest, above) = std::mem::take(&mut items).split_at_mut(not_greater);
        let below = &mut rest[..less];
        let (shorter, longer) = if less <= greater { (below, above) } else { (above, below) };
        sort(shorter, compare, depth_max);
        items = longer;
    }
}

fn insertion_sort<T>(items: &mut [T], compare: &mut impl FnMut(&T, &T) -> Ordering) {
    for next in 1..items.len() {
        let mut at = next;
        while at > 0 && compare(&items[at - 1], &items[at]).is_gt() {
            items.swap(at - 1, at);
            at -= 1;
        }
    }
}

/// Returns the place of the median of three.
fn median<T>(items: &[T], places: [usize; 3], compare: &mut impl FnMut(&T, &T) -> Ordering) -> usize {
    let [a, b, c] = places;
    let mut order = |left: usize, right: usize| compare(&items[left], &items[right]);
    match order(a, b).is_lt() {
        true if order(b, c).is_lt() => b,
        true if order(a, c).is_lt() => c,
        true => a,
        false if order(b, c).is_gt() => b,
        false if order(a, c).is_lt() => a,
        false => c,
    }
}

fn pivot<T>(items: &[T], compare: &mut impl FnMut(&T, &T) -> Ordering) -> usize {
    let (middle, last) = (items.len() / 2, items.len() - 1);
    if items.len() == INSERTION_MAX + 1 {
        return middle;
    }
    if items.len() <= THREE_MAX {
        return median(items, [0, middle, last], compare);
    }
    let step = items.len() / 8;
    let low = median(items, [0, step, 2 * step], compare);
    let middle = median(items, [middle - step, middle, middle + step], compare);
    let high = median(items, [last - 2 * step, last - step, last], compare);
    median(items, [low, middle, high], compare)
}

/// Brings the items that are less than a pivot to the front, and those that are greater to the end. Returns the numbers
/// of both.
fn partition<T>(items: &mut [T], compare: &mut impl FnMut(&T, &T) -> Ordering) -> (usize, usize) {
    let length = items.len();
    items.swap(0, pivot(items, compare));
    // Equal to the pivot are those before `equal_below` and those from `equal_above` on; less those up to `low`, and
    // greater those from `high` on.
    let (mut equal_below, mut low) = (1, 1);
    let (mut equal_above, mut high) = (length, length);
    loop {
        while low < high {
            match compare(&items[low], &items[0]) {
                Ordering::Greater => break,
                Ordering::Equal => {
                    items.swap(equal_below, low);
                    equal_below += 1;
                }
                Ordering::Less => {}
            }
            low += 1;
        }
        while low < high {
            match compare(&items[high - 1], &items[0]) {
                Ordering::Less => break,
                Ordering::Equal => {
                    equal_above -= 1;
                    items.swap(high - 1, equal_above);
                }
                Ordering::Greater => {}
            }
            high -= 1;
        }
        if low >= high {
            break;
        }
        items.swap(low, high - 1);
        low += 1;
        high -= 1;
    }
    let (less, greater) = (low - equal_below, equal_above - low);
    swap_ranges(items, 0, low, equal_below.min(less));
    swap_ranges(items, low, length, greater.min(length - equal_above));
    (less, greater)
}

/// Swaps the first items from `start` on with the last ones before `end`.
fn swap_ranges<T>(items: &mut [T], start: usize, end: usize, count: usize) {
    for i in 0..count {
        items.swap(start + i, end - count + i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(mut items: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
        quicksort(&mut items, |a, b| a.1.cmp(&b.1));
        items
    }

    /// The rows of PostgreSQL's `tenk1` with `unique1 < 10`, by `four`, in the order of PostgreSQL.
    #[test]
    fn equal_rows_come_as_in_postgresql() {
        let rows = [(4, 0), (2, 2), (1, 1), (6, 2), (9, 1), (8, 0), (5, 1), (3, 3), (7, 3), (0, 0)];
        let expected = [(0, 0), (8, 0), (4, 0), (5, 1), (9, 1), (1, 1), (6, 2), (2, 2), (3, 3), (7, 3)];
        assert_eq!(sorted(rows.to_vec()), expected);
    }

    #[test]
    fn all_are_there_in_order() {
        let mut state = 1u32;
        for length in 0..200 {
            for keys in [1, 3, 50, u32::MAX] {
                let rows: Vec<(u32, u32)> = (0..length)
                    .map(|i| {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        (i, (state >> 8) % keys)
                    })
                    .collect();
                let mut result = sorted(rows.clone());
                assert!(result.is_sorted_by_key(|row| row.1));
                result.sort_unstable();
                assert_eq!(result, rows);
            }
        }
    }
}
