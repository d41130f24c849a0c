#!/bin/sh
# Writes what a PostgreSQL 15 server has of encodings. Of those of one byte a character, their tables:
#   tools/encodings.sh single > crates/gnomon-sql/src/types/encoding/single_byte.tsv
# Of those of several bytes, each character that is read and that is written, for the test that compares all of them and
# writes the table of those that are different here (crates/gnomon-sql/src/types/encoding/differences.rs):
#   tools/encodings.sh several > /tmp/encodings
#   GNOMON_ENCODINGS=/tmp/encodings cargo test -p gnomon-sql --lib characters_are_postgresql_s -- --ignored
# The server is found as psql finds it (PGHOST, PGPORT, PGUSER).
set -eu
single() {
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
}
several() {
  psql -X -q -A -t -F '	' -v ON_ERROR_STOP=1 <<'SQL'
CREATE FUNCTION pg_temp.read(bytes text, encoding text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
  read text;
BEGIN
  read := convert_from(decode(bytes, 'hex'), encoding);
  RETURN CASE WHEN length(read) = 1 THEN to_hex(ascii(read)) END;
EXCEPTION WHEN untranslatable_character OR character_not_in_repertoire THEN
  RETURN NULL;
END $$;
CREATE FUNCTION pg_temp.written(code int, encoding text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
  RETURN encode(convert_to(chr(code), encoding), 'hex');
EXCEPTION WHEN untranslatable_character THEN
  RETURN NULL;
END $$;
SELECT encoding, 'read', bytes, code
FROM unnest('{EUC_JP,EUC_CN,EUC_KR,SJIS,BIG5,GBK,UHC,GB18030}'::text[]) AS encoding,
  LATERAL (
    SELECT to_hex(number) FROM generate_series(x'8000'::int, x'ffff'::int) AS number WHERE number & 255 > 0
    UNION ALL SELECT to_hex(number) FROM generate_series(x'8fa1a1'::int, x'8ffefe'::int) AS number
      WHERE encoding = 'EUC_JP' AND number & 255 > 0
    UNION ALL SELECT to_hex(first * 256 + second) || to_hex(third * 256 + fourth)
      FROM generate_series(129, 132) AS first, generate_series(48, 57) AS second, generate_series(129, 254) AS third,
        generate_series(48, 57) AS fourth
      WHERE encoding = 'GB18030'
  ) AS sequences (bytes),
  LATERAL pg_temp.read(bytes, encoding) AS code
WHERE code IS NOT NULL;
SELECT encoding, 'write', to_hex(code), bytes
FROM unnest('{EUC_JP,EUC_CN,EUC_KR,SJIS,BIG5,GBK,UHC,GB18030}'::text[]) AS encoding,
  LATERAL (
    SELECT generate_series(128, x'd7ff'::int) UNION ALL SELECT generate_series(x'e000'::int, x'ffff'::int)
    UNION ALL SELECT generate_series(x'20000'::int, x'2ffff'::int)
  ) AS codes (code),
  LATERAL pg_temp.written(code, encoding) AS bytes
WHERE bytes IS NOT NULL;
SQL
}
case ${1:-} in
  single | several) "$1" ;;
  *) sed -n '3p;6p' "$0" >&2; exit 2 ;;
esac
