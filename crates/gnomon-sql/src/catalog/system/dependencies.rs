//! Objects that refer to others: `pg_depend`, `pg_description`, and the descriptions of objects in words.

use std::collections::BTreeSet;

use super::{
    Object, System,
    builder::{Rows, int, letter, oid, string},
    default_oid,
    extensions::{EXTENSIONS, Extension},
    reference::{
        self, PG_ATTRDEF, PG_CLASS, PG_CONSTRAINT, PG_EXTENSION, PG_NAMESPACE, PG_PROC, PG_REWRITE, PG_TYPE,
        SHARED,
    },
    relations::column_numbers_in,
    row_types::RowType,
    uses::{relations_of_expression, relations_of_query},
};
use crate::{
    catalog::{
        BUILT_IN_COMMENT, CONSTRAINT_COMMENT, CommentKey,
        model::{Oid, Table, View, constraint_of_index, is_derived},
    },
    syntax::parse_query,
};

/// PostgreSQL's first identifier of objects that a database can do without, such as the views of its catalogs.
const FIRST_UNPINNED: Oid = 12_000;

/// An object as pg_depend names it: its catalog, its identifier and the number of a column, or 0.
type Address = (Oid, Oid, usize);

struct Dependencies<'r> {
    rows: &'r mut Rows,
}

impl Dependencies<'_> {
    fn add(&mut self, (class, object, column): Address, (on_class, on, on_column): Address, kind: u8) {
        self.rows.add([
            ("classid", oid(class)),
            ("objid", oid(object)),
            ("objsubid", int(column)),
            ("refclassid", oid(on_class)),
            ("refobjid", oid(on)),
            ("refobjsubid", int(on_column)),
            ("deptype", letter(kind)),
        ]);
    }

    /// The columns of an index, and of its constraint.
    fn index(&mut self, table: &Table, index: &crate::catalog::model::Index) {
        let (class, object) = match index.constraint {
            true => (PG_CONSTRAINT, index.constraint_oid()),
            false => (PG_CLASS, index.oid),
        };
        if index.constraint {
            self.add((PG_CLASS, index.oid, 0), (class, object, 0), b'i');
        }
        for column in &index.columns {
            self.add((class, object, 0), (PG_CLASS, table.oid, column + 1), b'a');
        }
        if let Some(whole) = table.whole_index(index) {
            self.add((PG_CLASS, index.oid, 0), (PG_CLASS, whole.oid, 0), b'P');
            self.add((PG_CLASS, index.oid, 0), (PG_CLASS, table.oid, 0), b'S');
            if index.constraint {
                self.add((class, object, 0), (PG_CONSTRAINT, whole.constraint_oid(), 0), b'P');
                self.add((class, object, 0), (PG_CLASS, table.oid, 0), b'S');
            }
        }
    }

    /// The types of a relation's rows, and of arrays of them.
    fn row_types(&mut self, relation: Oid) {
        let row = RowType::of(relation);
        self.add((PG_TYPE, row.oid(), 0), (PG_CLASS, relation, 0), b'i');
        self.add((PG_TYPE, row.array().oid(), 0), (PG_TYPE, row.oid(), 0), b'i');
    }

    fn table(&mut self, system: System<'_>, table: &Table) {
        self.row_types(table.oid);
        if let Some(of) = &table.partition_of {
            self.add((PG_CLASS, table.oid, 0), (PG_CLASS, of.table.oid, 0), b'a');
        }
        for column in table.partitioning.iter().flat_map(|partitioning| &partitioning.columns) {
            self.add((PG_CLASS, table.oid, column + 1), (PG_CLASS, table.oid, 0), b'i');
        }
        for check in &table.checks {
            let id = check.oid(table.oid);
            for column in column_numbers_in(&check.expression, table) {
                // Once by what it names, once as a part of the table's definition.
                self.add((PG_CONSTRAINT, id, 0), (PG_CLASS, table.oid, column), b'n');
                self.add((PG_CONSTRAINT, id, 0), (PG_CLASS, table.oid, column), b'a');
            }
            for relation in relations_of_expression(system.catalog(), &check.expression) {
                self.add((PG_CONSTRAINT, id, 0), (PG_CLASS, relation, 0), b'n');
            }
        }
        for (i, column) in table.live_columns() {
            let Some(default) = &column.default else { continue };
            let own = (PG_ATTRDEF, default_oid(table.oid, i), 0);
            self.add(own, (PG_CLASS, table.oid, i + 1), b'a');
            for relation in relations_of_expression(system.catalog(), default) {
                self.add(own, (PG_CLASS, relation, 0), b'n');
            }
        }
    }

    fn view(&mut self, system: System<'_>, view: &View) {
        self.row_types(view.oid);
        let rule = (PG_REWRITE, view.rule_oid(), 0);
        self.add(rule, (PG_CLASS, view.oid, 0), b'i');
        self.add(rule, (PG_CLASS, view.oid, 0), b'n');
        for on in system.relations_of_view(view) {
            self.add(rule, on, b'n');
        }
    }
}

/// The relations and functions of an extension: the catalog of each, and its identifier.
fn members(extension: &Extension) -> impl Iterator<Item = (Oid, Oid)> {
    let is_member = |name: &str| name.starts_with(extension.name);
    let relations = reference::RELATIONS.iter().filter(move |relation| is_member(relation.name));
    let functions = reference::FUNCTIONS.iter().filter(move |function| is_member(function.name));
    let relations = relations.map(|relation| (PG_CLASS, relation.oid));
    relations.chain(functions.map(|function| (PG_PROC, function.oid)))
}

/// `pg_depend`.
pub(super) fn dependencies(system: System<'_>, rows: &mut Rows) {
    let mut found = Dependencies { rows };
    for object in system.objects() {
        if let (false, Some(schema)) =
            (matches!(object, Object::Index(..)), system.schema_oid(object.schema()))
        {
            found.add((PG_CLASS, object.oid(), 0), (PG_NAMESPACE, schema, 0), b'n');
        }
        match object {
            Object::Sequence(sequence) => {
                if let Some((table, position)) = sequence.owner {
                    let identity = system.catalog().table_by_oid(table).is_some_and(|table| {
                        table.columns.get(position).is_some_and(|column| {
                            column.default.is_none()
                                && column.identity.is_some_and(|identity| identity.sequence == sequence.oid)
                        })
                    });
                    let kind = if identity { b'i' } else { b'a' };
                    found.add((PG_CLASS, sequence.oid, 0), (PG_CLASS, table, position + 1), kind);
                }
            }
            Object::Index(table, index) => found.index(table, index),
            Object::Table(table) => found.table(system, table),
            Object::View(view) => found.view(system, view),
        }
    }
    for extension in &EXTENSIONS {
        for (class, object) in members(extension) {
            found.add((class, object, 0), (PG_EXTENSION, extension.oid, 0), b'e');
        }
    }
    for procedure in system.catalog().procedures() {
        if let Some(schema) = system.schema_oid(&procedure.schema) {
            found.add((PG_PROC, procedure.oid, 0), (PG_NAMESPACE, schema, 0), b'n');
        }
    }
}

impl<'a> System<'a> {
    /// The relations that a view's query uses, or their columns. Objects without which there is no database are left
    /// out, as in PostgreSQL. Where it may show columns of a table because it groups by the primary key, it depends on
    /// the key.
    pub(super) fn relations_of_view(self, view: &View) -> BTreeSet<Address> {
        let Ok(query) = parse_query(&view.query) else { return BTreeSet::new() };
        let relations = relations_of_query(self.catalog(), &query);
        let uses = self.state.uses(view).unwrap_or_default();
        let columns = uses.iter().filter(|(oid, number)| *number > 0 && relations.contains(oid));
        let columns: BTreeSet<Address> =
            columns.map(|(oid, number)| (PG_CLASS, *oid, usize::try_from(*number).unwrap_or(0))).collect();
        // The relation itself only where no column stands for it.
        let whole = relations.iter().filter(|oid| columns.iter().all(|(_, of, _)| of != *oid));
        let mut found: BTreeSet<Address> = whole.map(|oid| (PG_CLASS, *oid, 0)).collect();
        let grouped = uses.iter().filter(|(oid, number)| *number == 0 && relations.contains(oid));
        let tables = grouped.filter_map(|(oid, _)| self.catalog().table_by_oid(*oid));
        let keys = tables.filter_map(|table| table.primary_key.as_ref());
        found.extend(keys.map(|key| (PG_CONSTRAINT, key.constraint_oid(), 0)));
        found.extend(columns);
        found.retain(|(_, object, _)| *object >= FIRST_UNPINNED);
        found
    }

    /// The object that a comment is on.
    fn commented(self, (id, column): CommentKey) -> Address {
        let catalog = self.catalog();
        if catalog.schemas().any(|schema| schema.oid == id) {
            (PG_NAMESPACE, id, 0)
        } else if column == CONSTRAINT_COMMENT {
            (PG_CONSTRAINT, constraint_of_index(id), 0)
        } else if is_derived(id) {
            (PG_CONSTRAINT, id, 0)
        } else if column & BUILT_IN_COMMENT != 0 {
            (column & !BUILT_IN_COMMENT, id, 0)
        } else if catalog.procedure_by_oid(id).is_some() {
            (PG_PROC, id, 0)
        } else {
            (PG_CLASS, id, usize::try_from(column).unwrap_or(0))
        }
    }

    /// The comment on an object of a catalog, of any if none is given.
    pub(super) fn comment(self, class: Option<Oid>, id: Oid, column: u32) -> Option<&'a str> {
        let is_it = |key: CommentKey| {
            let (found, object, number) = self.commented(key);
            object == id
                && number == usize::try_from(column).unwrap_or(0)
                && class.is_none_or(|class| found == class)
        };
        // That on a key is kept by its index.
        let given = match is_derived(id) {
            true => self.catalog().comments().find(|(key, _)| is_it(*key)).map(|(_, text)| &**text),
            false => self.catalog().comments_on(id).find(|(key, _)| is_it(*key)).map(|(_, text)| &**text),
        };
        let text = given.or_else(|| reference::description(class, id).filter(|_| column == 0));
        text.filter(|text| !text.is_empty())
    }

    /// The comments on objects of one database, or on those that all databases of a server share.
    fn comments(self, shared: bool) -> impl Iterator<Item = (Address, &'a str)> {
        let all = self.catalog().comments().map(move |(key, text)| (self.commented(key), &**text));
        all.filter(move |((class, ..), text)| SHARED.contains(class) == shared && !text.is_empty())
    }
}

/// `pg_description`.
pub(super) fn descriptions(system: System<'_>, rows: &mut Rows) {
    let known = reference::DESCRIPTIONS.iter().filter(|known| {
        let key = (known.object, BUILT_IN_COMMENT | known.class);
        system.catalog().comment(key).is_none()
    });
    for known in known {
        rows.add([
            ("objoid", oid(known.object)),
            ("classoid", oid(known.class)),
            ("objsubid", int(0)),
            ("description", string(known.text)),
        ]);
    }
    for ((class, object, column), text) in system.comments(false) {
        rows.add([
            ("objoid", oid(object)),
            ("classoid", oid(class)),
            ("objsubid", int(column)),
            ("description", string(text)),
        ]);
    }
}

/// `pg_shdescription`.
pub(super) fn shared_descriptions(system: System<'_>, rows: &mut Rows) {
    for ((class, object, _), text) in system.comments(true) {
        rows.add([("objoid", oid(object)), ("classoid", oid(class)), ("description", string(text))]);
    }
}
