//! Walks through trees reach every expression, query and relation.

use std::ops::ControlFlow;

use gnomon_parser::{
    ast::{Expr, Query, RelationName, TableReference},
    visit::{Visitor, VisitorMut},
};

const EVERYWHERE: &str = "WITH w AS MATERIALIZED (SELECT c1 FROM r1), \
    v AS (INSERT INTO r2 (p[c2]) VALUES (c3) ON CONFLICT ((c4)) WHERE c5 DO UPDATE SET q = c6, (x, y[c7]) = (c8, c9) \
    WHERE c10 RETURNING c11), \
    u AS (UPDATE r3 SET q = c12 FROM r4 WHERE c13 RETURNING c14), \
    z AS (DELETE FROM r5 USING r6 WHERE c15 RETURNING c16) \
    SELECT DISTINCT ON (c17) c18[c19:c20].f, -c21, c22 + c23, c24 = ANY (c25), c26 = ALL (SELECT c27 FROM r7), \
    c28 AND c29 OR NOT c30, c31 IS NULL, c32 IS TRUE, c33 IS DISTINCT FROM c34, c35 IN (c36, c37), \
    c38 IN (SELECT c39 FROM r8), c40 LIKE c41 ESCAPE c42, c43 BETWEEN c44 AND c45, c46::int, c47 COLLATE \"C\", \
    CASE c48 WHEN c49 THEN c50 ELSE c51 END, (c52, c53), ARRAY[c54], (SELECT c55 FROM r9), \
    EXISTS (SELECT c56 FROM r10), ARRAY(SELECT c57 FROM r11), coalesce(c58), greatest(c59), least(c60), \
    nullif(c61, c62), grouping(c63), \
    f(c64, n => c65 ORDER BY c66) FILTER (WHERE c67) OVER (PARTITION BY c68 ORDER BY c69 ROWS c70 PRECEDING) \
    FROM r12 TABLESAMPLE system (c71) REPEATABLE (c72), g(c73), LATERAL (SELECT c74 FROM r13) AS a, \
    (r14 CROSS JOIN r15) LEFT JOIN r16 ON c75 \
    WHERE c76 GROUP BY c77, ROLLUP (c78), CUBE (c79), GROUPING SETS (c80, (), (c81, c82)) HAVING c83 \
    WINDOW s AS (ORDER BY c84 ROWS BETWEEN c85 PRECEDING AND c86 FOLLOWING) \
    UNION (SELECT c87 FROM r17 ORDER BY c88 LIMIT c89) EXCEPT VALUES (c90), (c91) \
    ORDER BY c92 LIMIT c93 OFFSET c94";

/// Collects the names of columns and relations.
#[derive(Default)]
struct Names(Vec<String>);

impl Visitor for Names {
    type Break = ();

    fn visit_relation(&mut self, name: &RelationName) -> ControlFlow<()> {
        self.0.push(name.name.name.to_string());
        ControlFlow::Continue(())
    }

    fn visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Column(column) = expr {
            self.0.push(column.fields[0].name.to_string());
        }
        self.walk_expr(expr)
    }
}

/// Writes what it visits in capitals.
struct Capitals;

impl VisitorMut for Capitals {
    type Break = ();

    fn visit_relation(&mut self, name: &mut RelationName) -> ControlFlow<()> {
        name.name.name = name.name.name.to_uppercase().into();
        ControlFlow::Continue(())
    }

    fn visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Column(column) = expr {
            column.fields[0].name = column.fields[0].name.to_uppercase().into();
        }
        self.walk_expr(expr)
    }
}

fn names(query: &Query) -> Vec<String> {
    let mut names = Names::default();
    assert!(names.visit_query(query).is_continue());
    names.0
}

#[test]
fn walks_reach_everything() {
    let mut query = gnomon_parser::parse_query(EVERYWHERE).expect("a query");
    let mut found = names(&query);
    let number = |name: &String| (name.as_bytes()[0], name[1..].parse::<usize>().expect("a number"));
    found.sort_by_key(number);
    let wanted = (1..=94).map(|at| format!("c{at}")).chain((1..=17).map(|at| format!("r{at}")));
    assert_eq!(found, wanted.collect::<Vec<_>>());

    assert!(Capitals.visit_query(&mut query).is_continue());
    let mut changed = names(&query);
    changed.sort_by_key(number);
    assert_eq!(changed, found.iter().map(|name| name.to_uppercase()).collect::<Vec<_>>());
}

#[test]
fn a_walk_can_end_early_and_pass_over_what_is_within() {
    struct FirstJoin(usize);
    impl Visitor for FirstJoin {
        type Break = String;

        fn visit_query(&mut self, query: &Query) -> ControlFlow<String> {
            self.0 += 1;
            if self.0 == 1 { self.walk_query(query) } else { ControlFlow::Continue(()) }
        }

        fn visit_table(&mut self, table: &TableReference) -> ControlFlow<String> {
            match table {
                TableReference::Join(_) => ControlFlow::Break("join".to_owned()),
                table => self.walk_table(table),
            }
        }
    }
    let query =
        gnomon_parser::parse_query("SELECT (SELECT 1 FROM a JOIN b ON true) FROM c, d").expect("a query");
    let mut visitor = FirstJoin(0);
    assert_eq!(visitor.visit_query(&query), ControlFlow::Continue(()));
    assert_eq!(visitor.0, 2);
    let query = gnomon_parser::parse_query("SELECT 1 FROM c CROSS JOIN d").expect("a query");
    assert_eq!(FirstJoin(0).visit_query(&query), ControlFlow::Break("join".to_owned()));
}
