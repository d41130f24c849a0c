use super::*;
use crate::env::Rng;

fn loaded(end: u64) -> Space {
    let mut space = Space::new(end, 0, 0);
    for chunk in 0..end.div_ceil(CHUNK_PAGES) {
        space.load(chunk, None);
    }
    space
}

fn take(space: &mut Space, pages: u64, life: Life) -> Option<Run> {
    match space.take_run(pages, life) {
        Search::Found(run) => Some(run),
        Search::Nothing => None,
        Search::Load(chunk) => panic!("chunk {chunk} is not loaded"),
    }
}

fn take_everything(space: &mut Space) {
    while take(space, u64::MAX, Life::Short).is_some() {}
}

#[test]
fn a_page_given_up_is_free_only_when_its_batch_is_durable() {
    let mut space = loaded(2 * SEGMENT_PAGES);
    take_everything(&mut space);
    for page in 0..2 * SEGMENT_PAGES {
        space.reach(page);
    }
    space.abandon(42);
    assert_eq!(take(&mut space, 1, Life::Short), None, "the durable superblock still reaches page 42");
    space.release(42);
    assert_eq!(take(&mut space, 1, Life::Long), Some(Run { start: 42, len: 1 }));
    assert_eq!(take(&mut space, 1, Life::Long), None, "it was handed out once");
}

#[test]
fn pages_go_to_empty_segments_by_their_life_expectancy() {
    let mut space = loaded(4 * SEGMENT_PAGES + 9);
    for page in 0..4 {
        space.take(page);
    }
    let runs = [
        (100, Life::Short),
        (20, Life::Long),
        (100, Life::Short),
        (72, Life::Short),
        (200, Life::Long),
        (5, Life::Short),
    ]
    .map(|(pages, life)| take(&mut space, pages, life).map(|run| (run.start, run.len)));
    let places = [
        Some((128, 100)),
        Some((256, 20)),
        Some((228, 28)),
        Some((384, 72)),
        Some((276, 108)),
        Some((456, 5)),
    ];
    assert_eq!(runs, places, "each fills a segment of its own from the beginning");
    // No segment is empty any more: holes, and the end of the file.
    assert_eq!(take(&mut space, 500, Life::Long), Some(Run { start: 4, len: 124 }));
    assert_eq!(take(&mut space, 500, Life::Short), Some(Run { start: 461, len: 51 }));
    assert_eq!(take(&mut space, 500, Life::Short), Some(Run { start: 512, len: 9 }));
    assert_eq!(take(&mut space, 1, Life::Short), None);
}

#[test]
fn without_empty_segments_those_with_most_free_pages_are_filled_first() {
    let mut space = loaded(3 * SEGMENT_PAGES);
    take_everything(&mut space);
    for page in (0..20).chain(50..55).chain(100..180) {
        space.release(page);
    }
    let mut next = |pages| take(&mut space, pages, Life::Long).map(|run| (run.start, run.len));
    assert_eq!([next(40), next(40)], [Some((0, 20)), Some((50, 5))]);
    assert_eq!([next(40), next(40)], [Some((100, 28)), Some((128, 40))]);
    assert_eq!([next(40), next(40)], [Some((168, 12)), None]);
}

#[test]
fn old_and_nearly_empty_segments_are_cleaned_first() {
    let mut space = loaded(5 * SEGMENT_PAGES);
    take_everything(&mut space);
    for page in 0..5 * SEGMENT_PAGES {
        space.reach(page);
    }
    let free = |space: &mut Space, pages: std::ops::Range<u64>| {
        for page in pages {
            space.abandon(page);
            space.release(page);
        }
    };
    // Segments 0 to 4: a little, none, half, half, two thirds are free.
    free(&mut space, 0..8);
    free(&mut space, 256..320);
    free(&mut space, 384..448);
    free(&mut space, 512..600);
    assert_eq!(space.victims(1000, Young::Move), [2, 3, 4], "the first two are too full, the last is young");
    assert_eq!(space.victims(1000, Young::Leave), [2], "less was written than is free since");
    assert_eq!(space.victims(100, Young::Move), [2]);
    space.abandon(640 - 1);
    assert_eq!(
        space.victims(1000, Young::Move),
        [2, 3],
        "the durable superblock still needs a page of segment 4"
    );
    space.leave(2);
    assert_eq!(space.victims(1000, Young::Move), [3]);
    assert_eq!(space.live(2), (320..384).collect::<Vec<_>>());
}

#[test]
fn of_sparse_segments_the_sparsest_is_filled_first() {
    let mut space = loaded(4 * SEGMENT_PAGES);
    take_everything(&mut space);
    for (segment, kept) in [(1, 20), (2, 3), (3, SPARSE_PAGES_MAX)] {
        for page in segment * SEGMENT_PAGES + kept..(segment + 1) * SEGMENT_PAGES {
            space.release(page);
        }
    }
    let mut next = || take(&mut space, u64::MAX, Life::Short).map(|run| run.start / SEGMENT_PAGES);
    assert_eq!([next(), next(), next(), next()], [Some(2), Some(1), Some(3), None]);
}

#[test]
fn a_long_file_is_emptied_from_its_end() {
    let segments = 60;
    let mut space = loaded(segments * SEGMENT_PAGES);
    space.extent.spare_pages_max = 1024;
    take_everything(&mut space);
    for page in 0..segments * SEGMENT_PAGES {
        space.reach(page);
        if page >= 1000 && page != segments * SEGMENT_PAGES - 5 {
            space.abandon(page);
            space.release(page);
        }
    }
    // The last page is damaged: the file stays as it is.
    space.leave(segments - 1);
    assert!(!space.is_too_long());
    space.damaged.clear();
    space.begin_shrinking();
    space.leave(20);
    assert_eq!(space.end(), 21 * SEGMENT_PAGES, "it cannot be cut below a damaged page");
    space.damaged.clear();
    space.end = space.file_end;
    space.begin_shrinking();
    let end = space.end();
    assert!(end < 3000 && end.is_multiple_of(SEGMENT_PAGES), "{end}");
    assert!(space.wants_cleaning() && !space.can_be_cut());
    assert_eq!(space.victims(1000, Young::Move)[0], segments - 1);
    space.abandon(segments * SEGMENT_PAGES - 5);
    space.release(segments * SEGMENT_PAGES - 5);
    assert!(space.can_be_cut());
    take_everything(&mut space);
    assert_eq!(space.taken(), end, "nothing is handed out beyond the end");
    space.cut();
    assert_eq!(space.segments(), (end / SEGMENT_PAGES, 0));
}

/// Extents and pages are handed out once, where they may be, as long as there is room for one; the file grows by
/// what an extent needs.
#[test]
fn extents_are_aligned_and_found_wherever_they_fit() {
    let mut rng = Rng::from_seed(12);
    for round in 0..20 {
        let end = 600 + rng.below(if round % 4 == 0 { 2 * CHUNK_PAGES } else { 4000 });
        let mut space = loaded(end);
        let mut taken = vec![false; end as usize];
        let mut extents: Vec<Run> = Vec::new();
        for _ in 0..400 {
            let pages = 1 << rng.below(12);
            match rng.below(5) {
                0 => {
                    if let Some(run) = take(&mut space, pages.min(100), Life::Short) {
                        (run.start..run.start + run.len).for_each(|page| {
                            assert!(!std::mem::replace(&mut taken[page as usize], true));
                            extents.push(Run { start: page, len: 1 });
                        });
                    }
                }
                1 | 2 if !extents.is_empty() => {
                    let run = extents.swap_remove(rng.below(extents.len() as u64) as usize);
                    taken[run.start as usize..(run.start + run.len) as usize].fill(false);
                    space.release_run(run);
                }
                _ => match space.take_extent(pages) {
                    Search::Found(run) => {
                        assert_eq!((run.len, run.start % CHUNK_PAGES % pages), (pages, 0));
                        assert_eq!(run.start / CHUNK_PAGES, (run.start + pages - 1) / CHUNK_PAGES);
                        let free = &mut taken[run.start as usize..(run.start + pages) as usize];
                        assert!(free.iter().all(|taken| !taken), "{run:?}");
                        free.fill(true);
                        extents.push(run);
                    }
                    Search::Nothing => {
                        let fits = |start: &u64| {
                            let offset = start % CHUNK_PAGES;
                            offset.is_multiple_of(pages)
                                && offset + pages <= CHUNK_PAGES
                                && start + pages <= end
                                && (*start..start + pages).all(|page| !taken[page as usize])
                        };
                        assert_eq!((0..end).find(fits), None, "{pages} pages");
                    }
                    Search::Load(chunk) => panic!("chunk {chunk} is not loaded"),
                },
            }
            assert_eq!(space.taken() as usize, taken.iter().filter(|taken| **taken).count());
        }
        for pages in [1 << 11, 16, 1 << 8] {
            take_everything(&mut space);
            let end = space.end_with_extent(pages);
            assert!(end > space.end() && end <= space.end() + CHUNK_PAGES);
            space.grown(end);
            (0..end.div_ceil(CHUNK_PAGES))
                .filter(|chunk| !space.is_loaded(*chunk))
                .collect::<Vec<_>>()
                .into_iter()
                .for_each(|chunk| space.load(chunk, None));
            assert!(matches!(space.take_extent(pages), Search::Found(_)));
        }
    }
}

/// Every free page is handed out once, whatever happened before; what is known of empty segments is right.
#[test]
fn whatever_is_free_can_be_taken() {
    let mut rng = Rng::from_seed(11);
    for _ in 0..20 {
        let end = 600 + rng.below(1000);
        let mut space = loaded(end);
        let mut taken = BTreeSet::new();
        for _ in 0..200 {
            let life = if rng.chance(1, 2) { Life::Short } else { Life::Long };
            if rng.chance(1, 2) {
                if let Some(run) = take(&mut space, 1 + rng.below(100), life) {
                    assert!((run.start..run.start + run.len).all(|page| taken.insert(page)));
                }
            } else {
                let from = rng.below(end);
                for page in from..from + rng.below(200) {
                    if taken.remove(&page) {
                        space.release(page);
                    }
                }
            }
            let empty = |segment: &u64| {
                !space.is_filling(*segment)
                    && taken.range(segment * SEGMENT_PAGES..(segment + 1) * SEGMENT_PAGES).next().is_none()
            };
            assert_eq!(space.empty, (0..end / SEGMENT_PAGES).filter(empty).collect());
            let sparse = |segment: &u64| {
                let pages = segment * SEGMENT_PAGES..(segment + 1) * SEGMENT_PAGES;
                let count = taken.range(pages).count() as u64;
                !space.is_filling(*segment) && (1..=SPARSE_PAGES_MAX).contains(&count)
            };
            assert_eq!(space.partly[0], (0..end / SEGMENT_PAGES).filter(sparse).collect());
        }
        take_everything(&mut space);
        assert_eq!(space.taken(), end);
    }
}

#[test]
fn bitmaps_round_trip() {
    let mut space = loaded(CHUNK_PAGES);
    take(&mut space, 70, Life::Short);
    for page in [0, 1, 63, 64, 69] {
        space.reach(page);
    }
    let bitmap = space.bitmap(0);
    assert_eq!(marked(&bitmap).collect::<Vec<_>>(), [0, 1, 63, 64, 69]);
    let mut again = Space::new(CHUNK_PAGES, 5, 0);
    assert_eq!(again.take_run(2, Life::Short), Search::Load(0));
    again.load(0, Some(&bitmap));
    assert_eq!(take(&mut again, 2, Life::Short), Some(Run { start: 128, len: 2 }));
}
