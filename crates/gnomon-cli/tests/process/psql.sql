\d
\dt
\di
\ds
\dv
\du
\df now
\d branches
\d items
\d+ items
\d items_pkey
\d items_note_made
\d counter
\d items_seq_seq
\d items_id_seq
\d cheap
\d app.*
\d missing
\dt nothing*
\z items
