adascale leakage --scenario mnist --gains site.csv --unit dbm --transmit-power 23 \
  --gaps floor --sensitivity -110 --nu 0.01 --nu 0.04 --nu 0.16 \
  --accountant exact --out compare.csv
adascale plot compare.csv compare.svg
