#!/bin/sh
# Writes the reference data of pg_catalog and information_schema from a PostgreSQL 15 server, cut to what Gnomon has:
#   tools/system_catalog.sh crates/gnomon-sql/src/catalog/system/data
# The server is found as psql finds it (PGHOST, PGPORT, PGUSER).
set -eu
out=$1
ask() { psql -X -q -A -t -F '	' -v ON_ERROR_STOP=1 "$@"; }

# The types that Gnomon has, and the pseudo-types that signatures mention.
types="16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,194,700,701,705,1033,1042,1043,1082,1083,1114,1184,1186,1700,2202,2203,2204,2205,2206,2249,2278,2950,3220,3361,3402,3734,3769,4089,4096,4191,5017,5069"
pseudo="269,325,2275,2276,2277,2279,2281,2283,2287,2776,3838,5077,5078,5079"
have="(t.oid in ($types,$pseudo) or t.typelem in ($types) and t.typcategory = 'A' and t.typname like '\_%' and t.typelem not in (705,2249,2278))"

# A line for each relation (schema.name, oid, kind), then an indented one for each column (name, type, whether NOT NULL,
# the collation unless it is the type's).
# What Gnomon has no type for goes by the nearest one.
ask > "$out/relations.tsv" <<SQL
select line from (
  select n.nspname, c.relname, 0 as number, n.nspname || '.' || c.relname || E'\t' || c.oid || E'\t' || c.relkind::text as line
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where n.nspname in ('pg_catalog', 'information_schema') and c.relkind in ('r', 'v')
  union all
  select n.nspname, c.relname, a.attnum, E'\t' || a.attname || E'\t' ||
    case t.typname
      when 'anyarray' then '_text' when 'inet' then 'text'
      when '_pg_statistic' then '_text' when '_regtype' then '_regtype'
      else coalesce((select b.typname from pg_type b where b.oid = t.typbasetype), t.typname) end
    || E'\t' || case when a.attnotnull then 'not null' else '' end
    || case when a.attcollation = 950 and t.typname <> 'name'
      and coalesce((select b.typname from pg_type b where b.oid = t.typbasetype), '') <> 'name'
      and t.typname <> '_name' then E'\tC' else '' end
  from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
  join pg_type t on t.oid = a.atttypid
  where n.nspname in ('pg_catalog', 'information_schema') and c.relkind in ('r', 'v')
    and a.attnum > 0 and not a.attisdropped
) lines order by nspname collate "C", relname collate "C", number
SQL

# Whole rows, in COPY's text form, columns as in relations.tsv.
table() { ask -c "copy ($2) to stdout" > "$out/$1.tsv"; }
table pg_type "select t.oid, typname, typnamespace, typowner, typlen, typbyval, typtype, typcategory, typispreferred,
  typisdefined, typdelim, 0 as typrelid, typsubscript::oid, typelem, typarray, typinput::oid, typoutput::oid, typreceive::oid, typsend::oid,
  typmodin::oid, typmodout::oid, typanalyze::oid, typalign, typstorage, typnotnull, typbasetype, typtypmod, typndims, typcollation,
  null, null, null from pg_type t where $have order by oid"
operators="select o.* from pg_operator o where (o.oprleft = 0 or o.oprleft in (select oid from pg_type t where $have))
  and o.oprright in (select oid from pg_type t where $have) and o.oprresult in (select oid from pg_type t where $have)"
table pg_operator "select oid, oprname, oprnamespace, oprowner, oprkind, oprcanmerge, oprcanhash, oprleft, oprright,
  oprresult, oprcom, oprnegate, oprcode::oid, oprrest::oid, oprjoin::oid from ($operators) o order by oid"
table pg_cast "select c.oid, castsource, casttarget, castfunc, castcontext, castmethod from pg_cast c
  where castsource in (select oid from pg_type t where $have) and casttarget in (select oid from pg_type t where $have)
  order by oid"
# The order of the table, in which lists of a family's classes are shown.
opclasses="select ctid as place, * from pg_opclass where opcmethod = 403 and opcintype in (select oid from pg_type t where $have)"
table pg_opclass "select oid, opcmethod, opcname, opcnamespace, opcowner, opcfamily, opcintype, opcdefault, opckeytype
  from ($opclasses) o order by place"
table pg_opfamily "select oid, opfmethod, opfname, opfnamespace, opfowner from pg_opfamily
  where oid in (select opcfamily from ($opclasses) o) order by oid"
families="select opcfamily from ($opclasses) o"
amops="select * from pg_amop where amopfamily in ($families) and amoplefttype in (select oid from pg_type t where $have)
  and amoprighttype in (select oid from pg_type t where $have)"
table pg_amop "select * from ($amops) a order by amopfamily, amoplefttype, amoprighttype, amopstrategy"
amprocs="select * from pg_amproc where amprocfamily in ($families)
  and amproclefttype in (select oid from pg_type t where $have)
  and amprocrighttype in (select oid from pg_type t where $have)"
table pg_amproc "select oid, amprocfamily, amproclefttype, amprocrighttype, amprocnum, amproc::oid from ($amprocs) a
  order by amprocfamily, amproclefttype, amprocrighttype, amprocnum"
table pg_am "select oid, amname, amhandler::oid, amtype from pg_am order by oid"
table pg_language "select oid, lanname, lanowner, lanispl, lanpltrusted, lanplcallfoid, laninline, 0, null
  from pg_language where lanname in ('internal', 'sql') order by oid"
table pg_collation "select oid, collname, collnamespace, collowner, collprovider, collisdeterministic, collencoding,
  collcollate, collctype, colliculocale, collversion from pg_collation where collname in ('default', 'C', 'POSIX', 'ucs_basic')
  order by oid"
# What the standard calls features, with what PostgreSQL has of them; `missing_features.tsv` has what Gnomon has not.
table sql_features "select * from information_schema.sql_features order by feature_id collate \"C\", sub_feature_id collate \"C\""
table sql_sizing "select * from information_schema.sql_sizing order by sizing_id"
table sql_parts "select * from information_schema.sql_parts order by feature_id::int"
table sql_implementation_info "select * from information_schema.sql_implementation_info
  where implementation_info_name not like 'DBMS %' order by implementation_info_id"
# Text search: the configurations with what they are made of.
table pg_ts_config "select * from pg_ts_config order by oid"
table pg_ts_config_map "select * from pg_ts_config_map order by mapcfg, maptokentype, mapseqno"
table pg_ts_dict "select * from pg_ts_dict order by oid"
table pg_ts_parser "select oid, prsname, prsnamespace, prsstart::oid, prstoken::oid, prsend::oid, prsheadline::oid,
  prslextype::oid from pg_ts_parser order by oid"
ask -c "copy (select * from ts_token_type('default') order by tokid) to stdout" > "$out/token_types.tsv"
table pg_ts_template "select oid, tmplname, tmplnamespace, tmplinit::oid, tmpllexize::oid from pg_ts_template order by oid"
# Functions, shortened: oid, name, kind, volatility, strict, returns a set, result, variadic, arguments, defaults, source,
# parallel, leakproof, cost, rows, support, language, body.
function_columns="p.oid, proname, prokind, provolatile, proisstrict, proretset, prorettype, provariadic,
    array_to_string(proargtypes::oid[], ' '), pronargdefaults, prosrc, proparallel, proleakproof, procost, prorows,
    prosupport::oid, (select lanname from pg_language l where l.oid = prolang), pg_get_function_sqlbody(p.oid)"
ask -c "copy (select $function_columns
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.nspname = 'pg_catalog' and prorettype in (select oid from pg_type t where $have)
    and not exists (select 1 from unnest(proargtypes::oid[]) a where a not in (select oid from pg_type t where $have))
    and (prorettype <> 2281 and not 2281 = any (proargtypes)
         or p.oid in (select unnest(array[typinput, typoutput, typreceive, typsend, typmodin, typmodout, typsubscript,
                        typanalyze]::oid[])
                      from pg_type t where $have union select amhandler::oid from pg_am))
  order by p.oid) to stdout" > "$out/functions.tsv"
# The names of arguments, and the values of those that a call may leave out: oid, names, defaults.
ask -c "copy (select p.oid, array_to_string(proargnames[1:pronargs], ' '), pg_get_expr(proargdefaults, 0)
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.nspname = 'pg_catalog' and proargnames is not null and (proargmodes is null or proargmodes[1] = 'i')
    and prorettype in (select oid from pg_type t where $have)
    and not exists (select 1 from unnest(proargtypes::oid[]) a where a not in (select oid from pg_type t where $have))
  order by p.oid) to stdout" > "$out/argument_names.tsv"
# What functions return by OUT parameters, which stand behind the others: oid, types, names.
ask -c "copy (select p.oid, array_to_string(proallargtypes[pronargs + 1:], ' '), array_to_string(proargnames[pronargs + 1:], ' ')
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace
  where n.nspname = 'pg_catalog' and array_length(proallargtypes, 1) > pronargs
    and prorettype in (select oid from pg_type t where $have)
    and not exists (select 1 from unnest(proallargtypes) a where a not in (select oid from pg_type t where $have))
  order by p.oid) to stdout" > "$out/outputs.tsv"
# pg_get_catalog_foreign_keys.
ask -c "copy (select fktable::oid, array_to_string(fkcols, ','), pktable::oid, array_to_string(pkcols, ','), is_array,
  is_opt from pg_get_catalog_foreign_keys()) to stdout" > "$out/foreign_keys.tsv"
aggregates="select a.* from pg_aggregate a join pg_proc p on p.oid = a.aggfnoid
  where prorettype in (select oid from pg_type t where $have)
    and not exists (select 1 from unnest(proargtypes::oid[]) a where a not in (select oid from pg_type t where $have))"
table pg_aggregate "select aggfnoid::oid, aggkind, aggnumdirectargs, aggtransfn::oid, aggfinalfn::oid, aggcombinefn::oid,
  aggserialfn::oid, aggdeserialfn::oid, aggmtransfn::oid, aggminvtransfn::oid, aggmfinalfn::oid, aggfinalextra,
  aggmfinalextra, aggfinalmodify, aggmfinalmodify, aggsortop, aggtranstype, aggtransspace, aggmtranstype,
  aggmtransspace, agginitval, aggminitval from ($aggregates) a order by aggfnoid::oid"
# The functions that aggregates and text search are made of, and those that help to plan others, which are not in
# functions.tsv, because their states are internal.
ask -c "copy (select $function_columns
  from pg_proc p where p.oid in (select unnest(array[aggtransfn, aggfinalfn, aggcombinefn, aggserialfn, aggdeserialfn,
    aggmtransfn, aggminvtransfn, aggmfinalfn]::oid[]) from ($aggregates) a
    union select unnest(array[prsstart, prstoken, prsend, prsheadline, prslextype]::oid[]) from pg_ts_parser
    union select unnest(array[tmplinit, tmpllexize]::oid[]) from pg_ts_template
    union select prosupport from pg_proc
    union select amproc from ($amprocs) a)
  and (prorettype = 2281 or 2281 = any (proargtypes))
  and not exists (select 1 from unnest(proargtypes::oid[]) a where a not in (select oid from pg_type t where $have))
  order by p.oid) to stdout" > "$out/steps.tsv"
# Descriptions of the objects above, and of pg_catalog.
table pg_description "select objoid, classoid, objsubid, description from pg_description d
  where classoid = 'pg_type'::regclass and objoid in (select oid from pg_type t where $have)
    or classoid = 'pg_operator'::regclass and objoid in (select oid from ($operators) o)
    or classoid = 'pg_am'::regclass
    or classoid = 'pg_language'::regclass and objoid in (12, 14)
    or classoid = 'pg_collation'::regclass and objoid in (100, 950, 951)
    or classoid = 'pg_namespace'::regclass and objoid = 11
    or classoid = 'pg_proc'::regclass
    or classoid in ('pg_ts_config'::regclass, 'pg_ts_dict'::regclass, 'pg_ts_parser'::regclass, 'pg_ts_template'::regclass)
  order by classoid, objoid"
# The names of all functions but window functions, and of all types, by which an object that is missing here is told from one that is nowhere.
ask -c "select distinct proname::text collate \"C\" from pg_proc where pronamespace = 'pg_catalog'::regnamespace
  and prokind <> 'w' order by 1" > "$out/function_names.txt"
ask -c "select typname::text collate \"C\" from pg_type where typnamespace = 'pg_catalog'::regnamespace and typrelid = 0
  and typname not like '\_%' order by 1" > "$out/type_names.txt"
# The names of all settings, for the same purpose.
ask -c "select name from pg_settings order by name collate \"C\"" > "$out/setting_names.txt"
# Categories, contexts and types of the settings that there are here.
definitions=$(dirname "$0")/../crates/gnomon-sql/src/settings/definition.rs
settings=$(sed -n "s/^    [A-Za-z_]* = [a-z]*(\"\([^\"]*\)\".*/'\1'/p" "$definitions" | paste -s -d ,)
ask -c "copy (select name, category, context, vartype from pg_settings where name in ($settings)
  order by name collate \"C\") to stdout" > "$out/settings.tsv"
