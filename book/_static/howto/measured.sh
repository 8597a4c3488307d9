adascale schedule --scenario mnist --gains site.csv --unit dbm --transmit-power 23 \
  --gaps floor --sensitivity -110 --split 0.5 \
  --policy learn:budget_mode=hard --nu 0.04 --out eta.csv
adascale epsilon --scenario mnist --eta eta.csv --delta 1e-5
adascale plot eta.csv eta.pdf --x round --y noise_energy --linear x
