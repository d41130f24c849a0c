#!/bin/sh
# Writes the tables of encodings of one byte a character from a PostgreSQL 15 server:
#   tools/encodings.sh > crates/gnomon-sql/src/types/encoding/single_byte.tsv
# The server is found as psql finds it (PGHOST, PGPORT, PGUSER).
set -eu
psql -X -q -A -t -F '	' -v ON_ERROR_STOP=1 <<'SQL'
CREATE FUNCTION pg_temp.code(byte int, encoding text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN to_hex(ascii(convert_from(set_byte('\x00', 0, byte), encoding)));
EXCEPTION WHEN untranslatable_character THEN
  RETURN '-';
END $$;
SELECT encoding, string_agg(pg_temp.code(byte, encoding), ' ' ORDER BY byte)
FROM unnest('{LATIN1,LATIN2,LATIN3,LATIN4,LATIN5,LATIN6,LATIN7,LATIN8,LATIN9,LATIN10,WIN1256,WIN1258,WIN866,WIN874,KOI8R,
    WIN1251,WIN1252,ISO_8859_5,ISO_8859_6,ISO_8859_7,ISO_8859_8,WIN1250,WIN1253,WIN1254,WIN1255,WIN1257,KOI8U}'::text[])
  WITH ORDINALITY AS encodings (encoding, place), generate_series(128, 255) AS byte
GROUP BY encoding, place ORDER BY place;
SQL
