"""Record batches (magic 2). `batch` reads and stamps headers, `builder` encodes batches (`build_batch`,
`build_batch_at`), `record` and `validation` decode and check records, `compression` holds the codecs. `columnar`
converts batches to Arrow and back with compiled loops."""
