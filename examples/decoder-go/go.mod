module pascal

go 1.24
