"""`make bench-peers`: pipemill compared with other readers of the same records.

`cases` says what is compared, `inputs` makes the files, `turns` lets the readers take turns, `worker` is the process of a
reader, and `readers/` has what each of them does. The page is made by `pages`.
"""
