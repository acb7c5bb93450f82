"""`make bench-peers`: pipemill compared with other readers of the same records.

`cases` defines the comparisons, `inputs` makes the files, `turns` alternates between the readers,
`worker` is the process of a reader, and `readers/` contains the readers. The page is made by
`pages`.
"""
