module smelt

go 1.26
