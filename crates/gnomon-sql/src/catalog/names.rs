//! Names for objects that were given none.

use gnomon_parser::NAME_BYTES_MAX;

use crate::types::text::cut_at_character;

/// A name for an index that was given none.
pub fn choose_index_name(
    table: &str,
    columns: &[&str],
    (is_primary, is_constraint): (bool, bool),
    taken: impl Fn(&str) -> bool,
) -> String {
    match (is_primary, is_constraint) {
        (true, _) => choose_name(table, "", "pkey", taken),
        (_, true) => choose_name(table, &columns.join("_"), "key", taken),
        _ => choose_name(table, &columns.join("_"), "idx", taken),
    }
}

/// A name for an object that was given none: `table_column_suffix`, with a number if that is taken. The longer of
/// table and column is shortened first, as PostgreSQL's `makeObjectName` does.
pub fn choose_name(table: &str, columns: &str, suffix: &str, taken: impl Fn(&str) -> bool) -> String {
    (0u32..)
        .map(|attempt| {
            let suffix = if attempt == 0 { suffix.to_owned() } else { format!("{suffix}{attempt}") };
            let separators = 1 + usize::from(!columns.is_empty());
            let room = NAME_BYTES_MAX.saturating_sub(suffix.len() + separators);
            let (mut table_bytes, mut column_bytes) = (table.len(), columns.len());
            while table_bytes + column_bytes > room {
                if table_bytes > column_bytes {
                    table_bytes -= 1;
                } else {
                    column_bytes -= 1;
                }
            }
            let table = cut_at_character(table, table_bytes);
            let columns = cut_at_character(columns, column_bytes);
            if columns.is_empty() {
                format!("{table}_{suffix}")
            } else {
                format!("{table}_{columns}_{suffix}")
            }
        })
        .find(|name| !taken(name))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_chosen_as_postgresql_does() {
        let none = |_: &str| false;
        assert_eq!(choose_name("t", "a_b", "key", none), "t_a_b_key");
        assert_eq!(choose_name("t", "", "pkey", none), "t_pkey");
        assert_eq!(choose_name("t", "a", "seq", |name| name == "t_a_seq"), "t_a_seq1");
        let long = choose_name(&"t".repeat(60), &"c".repeat(40), "check", none);
        assert_eq!(long.len(), NAME_BYTES_MAX);
        assert!(long.ends_with("_check"));
        assert_eq!(cut_at_character("äöü", 3), "ä");
    }
}
